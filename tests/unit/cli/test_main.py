"""How the command ends: with a verdict, or with one sentence."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
import pytest
from tests.command import run_main

from hammingmark import cli
from hammingmark.cli import detect as detect_module
from hammingmark.cli import keys as keys_module
from hammingmark.detection.detector import Detector
from hammingmark.errors import HammingMarkError, InputError
from hammingmark.records import Verdict
from hammingmark.testing import FakeEncoder

Outcome = tuple[int, str, str]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    monkeypatch.setenv("HAMMINGMARK_KEYRING", str(tmp_path / "ring"))
    for module in (detect_module, keys_module):
        monkeypatch.setattr(module, "fetch_encoder", lambda spec: FakeEncoder())
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Outcome:
        code = run_main(*arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_a_verdict_for_a_file(run: Callable[..., Outcome], tmp_path: Path) -> None:
    assert run("keys", "new", "--name", "a")[0] == 0
    (tmp_path / "t.txt").write_text("A short one. A somewhat longer one. No.")
    code, out, err = run("detect", "t.txt", "--key", "a")
    assert (code, err) == (0, "")
    assert out.startswith("t.txt\n")
    assert "p-value" in out
    assert "A somewhat longer one." in out
    assert "A somewhat longer one." not in run("detect", "t.txt", "-k", "a", "--brief")[1]
    code, out, _ = run("detect", "t.txt", "--key", "a", "--json")
    assert json.loads(out)["piece_count"] == 3


def test_errors_stand_where_their_sources_do(run: Callable[..., Outcome], tmp_path: Path) -> None:
    run("keys", "new", "--name", "a")
    (tmp_path / "t.jsonl").write_text('{"text": "One. Two."}\nbad\n{"text": "Three."}\n{}\n')
    code, out, _ = run("detect", "t.jsonl", "absent.txt", "--key", "a", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert [row["source"] for row in rows] == [
        *(f"t.jsonl:{number}" for number in (1, 2, 3, 4)),
        "absent.txt",
    ]
    assert ["error" in row for row in rows] == [False, True, False, True, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["detect", "t.txt"], "Name a key with --key"),
        (["detect", "t.txt", "--all-keys"], "Name a key with --key"),
        (["detect", "t.txt", "--key", "absent"], "No key 'absent'"),
        (["detect", "t.txt", "--key", "a", "--level", "2"], "between 0 and 1"),
        (["detect", "t.txt", "--key", "a", "--references", "0"], "reference key"),
        (["detect", "t.txt", "--key", "a", "--statistic", "guess"], "statistic 'guess'"),
        (["detect", "t.txt", "--master", "a"], "--labels or --dates"),
        (["detect", "t.txt", "--key", "a", "--dates", "2026-01-01"], "--master"),
        (["detect", "t.txt", "--master", "a", "--dates", "May..June"], "'May..June'"),
        (
            ["detect", "t.txt", "--master", "a", "--dates", "2026-02-01..2026-01-01"],
            "'2026-02-01..",
        ),
        (["detect", "t.txt", "--master", "a", "-k", "a", "--dates", "2026-01-01"], "not both"),
        (["detect", "t.txt", "--key", "a", "--splitter", "punkt"], "--splitter"),
        (["detect", "t.txt", "--key", "a", "--language", "de"], "language 'en'"),
        (["keys", "derive", "a", " "], "label"),
        (["keys", "derive", "absent", "x"], "No key 'absent'"),
        (["keys", "new", "--method", "haming"], "Did you mean 'hamming'"),
        (
            ["keys", "new", "--set", "acceptanc=9"],
            "no parameter 'acceptanc'. Did you mean 'acceptance'",
        ),
        (["keys", "new", "--set", "bits=many"], "bits must be a whole number, not many"),
        (["keys", "new", "--set", "bits"], "KEY=VALUE"),
        (["keys", "new", "--bits", "8", "--set", "bits=8"], "given twice"),
        (["keys", "new", "--preset", "cheap"], "no preset 'cheap'"),
        (["methods", "haming"], "Did you mean 'hamming'"),
        (
            ["generate", "--no-watermark", "--label", "x", "--prompt", "x"],
            "--label",
        ),
        (["detect", "t.txt", "--key", "a", "--splitter", "punk"], "Did you mean 'punkt'"),
        (["detect", "t.txt", "--key", "a", "--language", "xx"], "no rules for language 'xx'"),
        (["detect", "t.txt", "--key", "a", "--calibration", "t.txt"], "not a calibration file"),
        (["detect", "t.txt", "--key", "a", "--calibration", "no"], "Cannot read no"),
        (["detect", "t.txt", "--key", "a", "--threshold", "nan"], "nan"),
        (["detect", "t.txt", "--key", "a", "--threshold", "inf"], "inf"),
        (["generate", "--no-watermark", "--seed", "-1"], "--seed must be at least 0"),
        (["demo", "--seed", "-1"], "--seed must be at least 0"),
        (["keys", "new", "--name", "../a"], "'../a'"),
        (["keys", "new", "--name", "a"], "exists"),
        (["keys", "new", "--softness", "nan"], "between 0 and 10"),
        (["keys", "new", "--bits", "0"], "between 1 and 64"),
        (["keys", "new", "--threshold", "9"], "between 0 and 8"),
        (["keys", "show", "b" * 300], "No key"),
        (["keys", "rotate", "absent"], "No key"),
    ],
)
def test_what_a_user_can_mend_is_one_sentence(
    run: Callable[..., Outcome], tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "t.txt").write_text("One. Two.")
    if "--all-keys" not in arguments:
        run("keys", "new", "--name", "a")
    code, out, err = run(*arguments)
    assert code == 1
    assert out == ""
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["detect", "--level", "much"],
        ["nonsense"],
        ["keys", "new", "--name", "a", "--out", "b"],
        ["calibrate"],
        ["--nonsense"],
    ],
)
def test_a_wrong_call_shows_the_usage(run: Callable[..., Outcome], arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert "Usage: " in err


def test_the_verdict_can_be_told_by_the_exit_code(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("keys", "new", "--name", "a")
    (tmp_path / "t.txt").write_text("A short one. A somewhat longer one. No.")
    (tmp_path / "one.txt").write_text("One.")

    def judged(**verdicts: bool | None) -> None:
        def judge_many(self: Detector, texts: Iterable[str]) -> Iterator[Verdict]:
            for text in texts:
                (verdict,) = list(real(self, [text]))
                yield dataclasses.replace(
                    verdict, watermarked=verdicts["one" if text == "One." else "t"]
                )

        monkeypatch.setattr(Detector, "judge_many", judge_many)

    real = Detector.judge_many
    for verdicts, code in (
        ({"t": True, "one": True}, 0),
        ({"t": True, "one": False}, 3),
        ({"t": True, "one": None}, 4),
        ({"t": None, "one": False}, 3),
    ):
        judged(**verdicts)
        arguments = ("detect", "t.txt", "one.txt", "-k", "a", "--brief")
        assert run(*arguments, "--exit-code")[0] == code
        assert run(*arguments)[0] == 0
        assert run(*arguments, "absent.txt", "--exit-code")[0] == 1


def test_an_exit_code_that_a_command_asks_for_is_the_programs(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAMMINGMARK_CACHE", str(tmp_path / "cache"))
    code, out, _ = run("models", "verify", "potion")
    assert code == 1
    assert "missing" in out
    file = tmp_path / "cache" / "models" / "potion" / "tokenizer.json"
    file.parent.mkdir(parents=True)
    file.write_text("not the tokenizer")
    code, out, _ = run("models", "verify", "--json")
    assert code == 1
    assert "corrupt" in {each["state"] for each in json.loads(out)}


@pytest.mark.parametrize("count", [1, 2])
def test_a_note_cannot_steer_the_terminal(run: Callable[..., Outcome], count: int) -> None:
    note = "\x1b]0;title\x07\x1b[31mred [bold]loud[/bold]\nstate    forged"
    for number in range(count):
        assert run("keys", "new", "--name", f"k{number}", "--note", note)[0] == 0
    for line in (["keys", "list"], ["keys", "show", "k0"]):
        code, out, err = run(*line)
        assert code == 0
        assert "\x1b" not in out + err
        assert "[bold]loud[/bold]" in out
        assert "\nstate    forged" not in out
    assert json.loads(run("keys", "show", "k0", "--json")[1])["note"] == note


def test_a_file_name_cannot_steer_the_terminal(run: Callable[..., Outcome], tmp_path: Path) -> None:
    run("keys", "new", "--name", "a")
    (tmp_path / "odd\x1b[31m.txt").write_text("One here. Two here.")
    code, out, err = run("detect", "odd\x1b[31m.txt", "gone\x1b[31m.txt", "-k", "a")
    assert code == 1
    assert "\x1b" not in out + err
    assert "odd\\x1b[31m.txt" in out
    assert "gone\\x1b[31m.txt" in err


def test_a_foreign_text_is_warned_of(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (detect_module, keys_module):
        monkeypatch.setattr(module, "fetch_encoder", lambda spec: FakeEncoder(name="minilm"))
    run("keys", "new", "--name", "a")
    german = "Der Hund lief über die Straße und sah die Katze. Sie saß auf dem Dach und schlief. "
    (tmp_path / "de.txt").write_text(german * 5)
    (tmp_path / "en.txt").write_text("The dog ran over the road and it saw the cat. " * 9)
    code, out, _ = run("detect", "de.txt", "en.txt", "-k", "a")
    german_report, english_report = out.split("en.txt")
    assert code == 0
    assert "\n  warning " in german_report
    assert "\n  warning " not in english_report
    rows = [
        json.loads(line)
        for line in run("detect", "de.txt", "en.txt", "-k", "a", "--json")[1].splitlines()
    ]
    assert [warning["kind"] for warning in rows[0]["warnings"]] == ["language"]
    assert rows[1]["warnings"] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_taught_to_complete(run: Callable[..., Outcome], shell: str) -> None:
    code, out, _ = run("completion", shell)
    assert code == 0
    assert "_HAMMINGMARK_COMPLETE" in out


def test_key_names_are_completed(
    run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("keys", "new", "--name", "blog")
    run("keys", "new", "--name", "shop")
    monkeypatch.setenv("_HAMMINGMARK_COMPLETE", "bash_complete")
    for line, place, completions in (
        ("hammingmark detect --key b", 3, ["plain,blog"]),
        ("hammingmark keys show sh", 3, ["plain,shop"]),
        ("hammingmark generate -k zzz", 3, ["file,zzz"]),
        ("hammingmark comp", 1, ["plain,completion"]),
    ):
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(place))
        code, out, _ = run()
        assert code == 0
        assert out.split() == completions


def every_command() -> list[click.Command]:
    context = click.Context(cli.cli)
    commands: list[click.Command] = []
    for name in cli.COMMANDS:
        command = cli.cli.get_command(context, name)
        assert command is not None
        commands += command.commands.values() if isinstance(command, click.Group) else [command]
    return commands


def test_every_option_has_help() -> None:
    without = [
        f"{command.name} {option.opts[0]}"
        for command in every_command()
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert without == []


@pytest.mark.parametrize(
    ("error", "code"), [(click.Abort(), 130), (KeyboardInterrupt(), 130), (InputError("No."), 1)]
)
def test_each_ending_has_its_code(
    run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail(**options: object) -> None:
        raise error

    monkeypatch.setattr(cli, "cli", fail)
    assert run()[0] == code


def test_our_own_mistakes_are_not_hidden(
    run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "cli", fail)
    with pytest.raises(ZeroDivisionError):
        run()
    assert not issubclass(ZeroDivisionError, HammingMarkError)


def test_every_command_is_listed_with_its_brief(run: Callable[..., Outcome]) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for name, (_, brief) in cli.COMMANDS.items():
        assert name in out
        assert brief[:30] in out


def test_the_version_is_told(run: Callable[..., Outcome]) -> None:
    from hammingmark import __version__

    assert run("--version")[1] == f"hammingmark, version {__version__}\n"
