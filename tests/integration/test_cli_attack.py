"""``attack`` on files: output, resumption and refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command import run_main

from hammingmark.text.words import split_words

COMMAND = Path(sys.executable).with_name("hammingmark")
TEXT = "The river rose in the night. By morning it had reached the mill, and it was very late."
Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in its own folder, in this process, without a judge."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text(TEXT)
    rows = [json.dumps({"text": f"Text {n} is here. {TEXT}"}) for n in range(7)]
    (tmp_path / "many.jsonl").write_text("\n".join(rows))

    def run(*arguments: str, judge: str | None = "none") -> Outcome:
        judged = ["--judge", judge] if judge else []
        code = run_main("attack", *arguments, *judged)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def rows_of(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def test_one_text_to_the_screen(run: Run) -> None:
    code, out, err = run("delete-words", "--in", "t.txt", "--share", "0.5")
    assert code == 0
    assert len(split_words(out)) == len(split_words(TEXT)) / 2
    assert err.startswith("[1 text: words changed 0.500")
    code, out, _ = run("delete-words", "--in", "t.txt", "--json")
    assert json.loads(out)["original"] == "t.txt"


def test_lost_words_are_told(run: Run) -> None:
    _, _, err = run("delete-words", "--in", "t.txt", "--share", "0.5")
    assert "Warning: 1 of 1 text " in err
    assert "50%" in err
    assert "--max-loss" in err
    more = ("--in", "many.jsonl", "--out", "o.jsonl", "--json", "--share", "0.5")
    _, out, err = run("delete-words", *more)
    summary = json.loads(out)
    rows = rows_of("o.jsonl")
    assert summary["shortened"] == sum(row["words_lost"] > 0.2 for row in rows) == 7
    assert summary["most_words_lost"] == max(row["words_lost"] for row in rows)
    assert "Warning: 7 of 7 texts " in err
    # The same rows under a laxer bound: nothing is lost that was not meant to be.
    _, out, err = run("delete-words", *more, "--max-loss", "0.7")
    assert (json.loads(out)["shortened"], err) == (0, "")
    assert "Warning" not in run("typos", "--in", "t.txt")[2]


def test_one_text_to_a_file(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("case", "--in", "t.txt", "--out", "new.txt", "--set", "style=upper")
    assert (code, out) == (0, "")
    assert (tmp_path / "new.txt").read_text() == TEXT.upper()
    assert not list(tmp_path.glob(".*partial"))
    code, _, err = run("case", "--in", "many.jsonl", "--out", "new.txt")
    assert code == 1
    assert "a .jsonl file" in err


def test_a_file_that_exists_is_refused_before_any_work(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = '{"format": "hammingmark-key", "secret": "00"}'
    for name in ("key.json", "key.jsonl"):
        (tmp_path / name).write_text(key)
    (tmp_path / "mine.txt").write_text("mine")
    call = ["case", "--in", "t.txt", "--out"]
    with monkeypatch.context() as patch:
        patch.setattr("hammingmark.cli.attack._load", None)  # must not be reached
        for extra, message in (
            (["mine.txt"], "mine.txt exists"),
            (["key.json"], "key.json exists"),
            (["key.json", "--overwrite"], "key.json is a key file"),
            (["key.jsonl"], "was not written by this command"),
            (["key.jsonl", "--overwrite"], "key.jsonl is a key file"),
        ):
            code, out, err = run(*call, *extra)
            assert (code, out) == (1, "")
            assert message in err
            assert err.count("\n") == 1
    assert (tmp_path / "key.json").read_text() == (tmp_path / "key.jsonl").read_text() == key
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert run(*call, "mine.txt", "--overwrite")[0] == 0
    assert (tmp_path / "mine.txt").read_text() != "mine"


def test_devices_and_pipes_take_what_they_are_given(run: Run, tmp_path: Path) -> None:
    assert run("case", "--in", "t.txt", "--out", "/dev/null")[0] == 0
    assert run("case", "--in", "many.jsonl", "--out", "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    assert run("case", "--in", "many.jsonl", "--out", str(pipe), "--batch", "2")[0] == 0
    out, _ = reader.communicate(timeout=30)
    assert len([json.loads(line) for line in out.splitlines()]) == 7


def test_rows_say_all_that_decided_them(run: Run) -> None:
    code, out, err = run("typos", "--in", "many.jsonl", "--out", "o.jsonl", "--seed", "3", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["texts"] == 7
    rows = rows_of("o.jsonl")
    assert [row["original"] for row in rows] == [f"many.jsonl:{n}" for n in range(1, 8)]
    assert rows[0]["id"] == "many.jsonl:1#typos"
    for row in rows:
        assert 0 < row["words_changed"] < 0.3
        assert 0 < row["sentences_touched"] <= 1
        assert (row["similarity"], row["kept"], row["min_similarity"]) == (None, None, 0.7)
        assert row["run"] == {
            "attack": "typos",
            "parameters": {"share": 0.1, "min_similarity": 0.7},
            "seed": 3,
            "batch": 32,
            "judge": "none",
            "splitter": "sentencex",
            "language": "en",
        }
    assert len({row["fingerprint"] for row in rows}) == 7


def test_several_texts_to_the_screen_are_rows(run: Run) -> None:
    code, out, _ = run("typos", "--in", "many.jsonl", "--in", "t.txt")
    assert code == 0
    assert [json.loads(line)["original"] for line in out.splitlines()][-1] == "t.txt"


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 6, 7])
def test_a_broken_run_goes_on_where_it_stopped(run: Run, tmp_path: Path, kept: int) -> None:
    call = ["typos", "--in", "many.jsonl", "--batch", "3", "--out"]
    run(*call, "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    torn = lines[kept][:40] if kept < len(lines) else b""
    (tmp_path / "broken.jsonl").write_bytes(b"".join(lines[:kept]) + (torn if kept else b""))
    code, _, err = run(*call, "broken.jsonl")
    assert code == 0, err
    assert err.startswith("[7 texts")
    assert (tmp_path / "broken.jsonl").read_bytes() == b"".join(lines)


def test_a_finished_run_is_not_done_again(run: Run, tmp_path: Path) -> None:
    call = ["typos", "--in", "many.jsonl", "--out", "o.jsonl"]
    run(*call)
    before = (tmp_path / "o.jsonl").stat().st_mtime_ns
    assert run(*call)[0] == 0
    assert (tmp_path / "o.jsonl").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (["--seed", "1"], ("seed", "0", "1")),
        (["--share", "0.2"], ("share", "0.1", "0.2")),
        (["--batch", "2"], ("batch", "32", "2")),
        (["--splitter", "punkt"], ("splitter", "'sentencex'", "'punkt'")),
    ],
)
def test_rows_of_another_run_are_refused(
    run: Run, tmp_path: Path, change: list[str], names: tuple[str, ...]
) -> None:
    call = ["typos", "--in", "many.jsonl", "--out", "o.jsonl"]
    run(*call)
    before = (tmp_path / "o.jsonl").read_bytes()
    code, _, err = run(*call, *change)
    assert code == 1
    for name in ("o.jsonl:1", *names, "--overwrite"):
        assert name in err
    assert (tmp_path / "o.jsonl").read_bytes() == before
    assert run(*call, *change, "--overwrite")[0] == 0
    assert (tmp_path / "o.jsonl").read_bytes() != before


def test_rows_of_another_attack_or_input_are_refused(run: Run, tmp_path: Path) -> None:
    run("typos", "--in", "many.jsonl", "--out", "o.jsonl")
    code, _, err = run("swap-words", "--in", "many.jsonl", "--out", "o.jsonl")
    assert code == 1
    assert "'typos'" in err
    assert "'swap-words'" in err
    lines = (tmp_path / "many.jsonl").read_text().splitlines()
    lines[4] = json.dumps({"text": "Another."})
    (tmp_path / "many.jsonl").write_text("\n".join(lines))
    code, _, err = run("typos", "--in", "many.jsonl", "--out", "o.jsonl")
    assert code == 1
    assert "o.jsonl:5" in err
    (tmp_path / "many.jsonl").write_text("\n".join(lines[:4]))
    code, _, err = run("typos", "--in", "many.jsonl", "--out", "o.jsonl")
    assert code == 1
    assert "7 rows" in err
    assert "4 texts" in err


@pytest.mark.parametrize("content", ["My diary.", "My diary.\nMore.\n", '{"text": "x"}\n', "[]\n"])
def test_a_file_of_another_kind_is_not_touched(run: Run, tmp_path: Path, content: str) -> None:
    (tmp_path / "o.jsonl").write_text(content)
    code, _, err = run("typos", "--in", "many.jsonl", "--out", "o.jsonl")
    assert code == 1
    assert "not written by this command" in err
    assert (tmp_path / "o.jsonl").read_text() == content


def test_settings_from_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pool.txt").write_text("Copper rose in London. Nobody asked for tea.")
    call = ["insert-sentences", "--in", "t.txt", "--share", "0.5", "--set", "pool=@pool.txt"]
    code, out, _ = run(*call)
    assert code == 0
    assert ("Copper rose in London." in out) != ("Nobody asked for tea." in out)
    assert run(*call, "--out", "o.jsonl")[0] == 0
    assert rows_of("o.jsonl")[0]["run"]["parameters"]["pool"][0] == "Copper rose in London."
    (tmp_path / "pool.txt").write_text("A much longer pool of sentences. " * 20)
    code, _, err = run(*call, "--out", "o.jsonl")
    assert code == 1
    assert "'sha256:" in err
    (tmp_path / "asked.txt").write_text("Tell me about the river.\n")
    code, out, _ = run("prompt", "--in", "t.txt", "--set", "prompt=@asked.txt")
    assert out == f"Tell me about the river. {TEXT}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name an attack"),
        (["typo", "--in", "t.txt"], "Did you mean 'typos'"),
        (["typos", "--in", "absent.txt"], "Cannot read absent.txt"),
        (["typos", "--in", "t.txt", "--set", "rate=1"], "no parameter 'rate'"),
        (["typos", "--in", "t.txt", "--set", "share"], "KEY=VALUE"),
        (["typos", "--in", "t.txt", "--share", "1", "--set", "share=1"], "given twice"),
        (["typos", "--in", "t.txt", "--share", "2"], "between 0 and 1"),
        (["typos", "--in", "t.txt", "--set", "share=much"], "share must be a number, not much"),
        (["case", "--in", "t.txt", "--set", "style=loud"], "lower or upper or title or flip"),
        (["prompt", "--in", "t.txt", "--share", "1"], "no parameter 'share'"),
        (["copy-paste", "--in", "t.txt"], "needs the parameter 'pool'"),
        (["copy-paste", "--in", "t.txt", "--set", "pool=@no"], "Cannot read no"),
        (["typos", "--in", "t.txt", "--batch", "0"], "batch must be at least 1"),
        (["typos", "--in", "t.txt", "--seed", "-1"], "--seed must be at least 0, not -1."),
        (["typos", "--in", "t.txt", "--out", "t.txt"], "in the input t.txt"),
        (["typos", "--in", ".", "--out", "o.jsonl"], "in the input ."),
        (["typos", "--in", "t.txt", "--out", "no/o.jsonl"], "Cannot write no/o.jsonl"),
        (["typos", "--in", "t.txt", "--out", "no/o.txt"], "Cannot write no/o.txt"),
        (["typos", "--in", "t.txt", "--out", ".."], ".. is a folder"),
        (["typos", "--in", "t.txt", "--judge", "nobody"], "'nobody'"),
    ],
)
def test_what_a_user_can_mend_is_one_sentence(run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments, judge=None if "--judge" in arguments else "none")
    assert code == 1
    assert out == ""
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_bad_line_stops_the_run_before_it_begins(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": "One."}\nnot json\n')
    code, _, err = run("typos", "--in", "bad.jsonl", "--out", "o.jsonl")
    assert code == 1
    assert "bad.jsonl:2 is not JSON" in err
    assert not (tmp_path / "o.jsonl").exists()


def test_the_list_has_every_attack_with_one_line(run: Run) -> None:
    from hammingmark import registry

    code, out, _ = run("--list", judge=None)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == registry.names("attacks")
    assert all(line.endswith(".") for line in out.splitlines())
    listed = json.loads(run("--list", "--json", judge=None)[1])
    assert [row["name"] for row in listed] == registry.names("attacks")
    code, out, _ = run("truncate", "--list", judge=None)
    assert "  side: front or back; by default back" in out
    assert "  share: a number; by default 0.5" in out


def test_a_default_that_cannot_be_typed_is_not_recorded(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hammingmark.attacks.spelling import Typos

    class Own(Typos):
        """Has a function for a setting."""

        def __init__(self, *, tokens: Callable[[str], object] = str.split, most: int = 3) -> None:
            super().__init__(share=0.2)

    monkeypatch.setattr("hammingmark.registry.find", _finding("attacks", "typos", Own))
    assert run("typos", "--in", "t.txt", "--out", "o.jsonl")[0] == 0
    assert rows_of("o.jsonl")[0]["run"]["parameters"] == {"most": 3}


def _finding(room: str, name: str, part: object) -> Callable[[str, str], object]:
    from hammingmark.registry import find

    return lambda r, n: part if (r, n) == (room, name) else find(r, n)


def test_ctrl_c_tells_what_is_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from hammingmark.attacks.spelling import Typos

    calls = []
    change = Typos.change

    def stop_later(self: Typos, text: str, **dice: Any) -> str:
        calls.append(text)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return change(self, text, **dice)

    with monkeypatch.context() as patch:
        patch.setattr(Typos, "change", stop_later)
        code, _, err = run("typos", "--in", "many.jsonl", "--out", "o.jsonl", "--batch", "2")
    assert code == 130
    assert "Stopped. 4 of 7 texts are in o.jsonl. " in err
    assert len(rows_of("o.jsonl")) == 4
    assert run("typos", "--in", "many.jsonl", "--out", "o.jsonl", "--batch", "2")[0] == 0
    assert run("typos", "--in", "many.jsonl", "--out", "new.jsonl", "--batch", "2")[0] == 0
    assert rows_of("o.jsonl") == rows_of("new.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_run_that_was_killed_goes_on(run: Run, tmp_path: Path, how: signal.Signals) -> None:
    call = ["typos", "--in", "in.jsonl", "--batch", "3", "--out"]
    out = tmp_path / "out.jsonl"

    def killed(count: int) -> int:
        """Begin with as many texts, kill the run when some are there, and count them."""
        texts = [json.dumps({"text": f"Text {n} is here. {TEXT}"}) for n in range(count)]
        (tmp_path / "in.jsonl").write_text("\n".join(texts))
        out.unlink(missing_ok=True)
        child = subprocess.Popen(
            [COMMAND, "attack", *call, out, "--judge", "none"],
            cwd=tmp_path,
            stderr=subprocess.DEVNULL,
        )
        while child.poll() is None and not (out.exists() and out.stat().st_size > 5_000):
            time.sleep(0.002)
        child.send_signal(how)
        child.wait()
        return out.read_bytes().count(b"\n")

    # If this process is delayed, the other may finish before the signal arrives.
    counts = (300 * 4**n for n in range(5))
    assert any(0 < killed(count) < count for count in counts)
    assert run(*call, "out.jsonl")[0] == 0
    assert run(*call, "whole.jsonl")[0] == 0
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.slow
def test_the_judge_tells_a_light_touch_from_a_ruin(run: Run, tmp_path: Path) -> None:
    light = run("typos", "--in", "t.txt", "--json", "--share", "0.1", judge="bge-small")
    heavy = run("delete-words", "--in", "t.txt", "--json", "--share", "0.9", judge="bge-small")
    touched, ruined = json.loads(light[1]), json.loads(heavy[1])
    assert touched["kept"] is True
    assert ruined["kept"] is False
    assert ruined["similarity"] < touched["similarity"]
