"""How the command ends: with a verdict, or with one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import numpy as np
import pytest

from hammingmark import cli
from hammingmark.cli import detect as detect_module
from hammingmark.cli import keys as keys_module
from hammingmark.errors import HammingMarkError, InputError
from hammingmark.protocols import FloatArray

Outcome = tuple[int, str, str]


class CountingEncoder:
    """Embeds a sentence by its length."""

    name = "counting"
    dimension = 16
    fingerprint = "cd" * 32

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        rows = np.array(
            [
                np.random.default_rng(len(sentence)).standard_normal(self.dimension)
                for sentence in sentences
            ],
            np.float32,
        ).reshape(-1, self.dimension)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    monkeypatch.setenv("HAMMINGMARK_KEYRING", str(tmp_path / "ring"))
    for module in (detect_module, keys_module):
        monkeypatch.setattr(module, "fetch_encoder", lambda spec: CountingEncoder())
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr("sys.argv", ["hammingmark", *arguments])
        code: object = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        assert isinstance(code, int)
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
    assert json.loads(out)["sentences"] == 3


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
    ("arguments", "said"),
    [
        (["detect", "t.txt"], "Name a key with --key"),
        (["detect", "t.txt", "--all-keys"], "Name a key with --key"),
        (["detect", "t.txt", "--key", "absent"], "No key 'absent'"),
        (["detect", "t.txt", "--key", "a", "--level", "2"], "between 0 and 1"),
        (["detect", "t.txt", "--key", "a", "--references", "0"], "reference key"),
        (["detect", "t.txt", "--key", "a", "--splitter", "punk"], "Did you mean 'punkt'"),
        (["detect", "t.txt", "--key", "a", "--language", "xx"], "no rules for language 'xx'"),
        (["detect", "t.txt", "--key", "a", "--calibration", "t.txt"], "not a calibration file"),
        (["detect", "t.txt", "--key", "a", "--calibration", "no"], "Cannot read no"),
        (["keys", "new", "--name", "../a"], "cannot name a key"),
        (["keys", "new", "--name", "a"], "exists"),
        (["keys", "new", "--bits", "0"], "between 1 and 64"),
        (["keys", "new", "--threshold", "9"], "between 0 and 8"),
        (["keys", "show", "b" * 300], "No key"),
        (["keys", "rotate", "absent"], "No key"),
    ],
)
def test_what_a_user_can_mend_is_one_sentence(
    run: Callable[..., Outcome], tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "t.txt").write_text("One. Two.")
    if "--all-keys" not in arguments:
        run("keys", "new", "--name", "a")
    code, out, err = run(*arguments)
    assert code == 1
    assert out == ""
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["detect", "--statistic", "guess"],
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
