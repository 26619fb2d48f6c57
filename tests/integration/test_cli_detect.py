"""The command on real text with a real encoder; opt in with ``-m slow``."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.command import INSTALLED, run_here
from tests.schemas import assert_valid

from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import new_key
from hammingmark.assembly.parts import load_splitter
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.keys.keyring import Keyring
from hammingmark.watermarks.hamming import HammingMark

pytestmark = pytest.mark.slow

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="module")
def sentences(articles: list[str]) -> list[str]:
    """Sentences that the splitter leaves whole."""
    splitter = load_splitter()
    sentences = [s for text in articles[:12] for s in splitter.split(text[:20_000]).carrying]
    return [s for s in sentences if 40 < len(s) < 250 and splitter.split(s).carrying == [s]]


@pytest.fixture(scope="module")
def key() -> WatermarkKey:
    """A fixed key: under some keys the bits alone show less of the mark."""
    return replace(new_key("potion", method="hamming"), secret=Secret(bytes(range(7, 39))))


@pytest.fixture(scope="module")
def marked(key: WatermarkKey, sentences: list[str]) -> str:
    """Thirty sentences of the encyclopaedia, each accepted after the previous one."""
    mark = HammingMark(key)
    rows = load_encoder("potion").encode(sentences)
    order = np.random.default_rng(0).permutation(len(sentences))
    indices = [int(order[0])]
    for index in map(int, order[1:]):
        if len(indices) < 30 and mark.choose(rows[indices[-1]], rows[[index]]).accepted:
            indices.append(index)
    assert len(indices) == 30
    return "\n\n".join(sentences[index] for index in indices)


@pytest.fixture(scope="module")
def plain(sentences: list[str]) -> str:
    return "\n\n".join(sentences[100:130])


@pytest.fixture
def ring(tmp_path: Path, key: WatermarkKey) -> dict[str, str]:
    """The environment with a keyring that contains ``key`` as ``mine``."""
    Keyring(tmp_path / "ring").add(key, name="mine")
    return {"HAMMINGMARK_KEYRING": str(tmp_path / "ring")}


@pytest.fixture
def run(tmp_path: Path, key: WatermarkKey, ring: dict[str, str]) -> Run:
    """Run the command in its own folder, with ``key`` in the keyring as ``mine``."""
    secret = key.secret.reveal().hex().encode()

    def run(
        *arguments: str, given: bytes = b"", encoding: str = "utf-8"
    ) -> subprocess.CompletedProcess[bytes]:
        done = run_here(*arguments, given=given, folder=tmp_path, variables=ring, encoding=encoding)
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        assert secret not in done.stdout + done.stderr
        return done

    return run


def rows_of(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_files_are_judged_and_json_has_what_was_promised(
    run: Run, tmp_path: Path, key: WatermarkKey, marked: str, plain: str
) -> None:
    (tmp_path / "marked.txt").write_text(marked, "utf-8")
    (tmp_path / "plain.txt").write_text(plain, "utf-8")
    done = run("detect", "marked.txt", "plain.txt", "-k", "mine", "--json")
    assert done.returncode == 0
    assert done.stderr == b""
    yes, no = rows_of(done)
    for row in (yes, no):
        assert_valid({k: v for k, v in row.items() if k != "source"}, "verdict-1")
        details = [piece["details"] for piece in row["pieces"] if piece["score"] is not None]
        assert row["piece_count"] == len(row["pieces"]) == 30
        assert len(details) == 29
        assert all(0 <= each["match"] <= 8 for each in details)
        assert all(-1 <= each["cosine"] <= 1 for each in details)
        assert 0 < row["p_value"] <= 1
        assert row["statistic"] == "margin"
        assert row["key_id"] == key.id
    assert yes["source"] == "marked.txt"
    assert yes["watermarked"] is True
    assert yes["statistics"]["edge_vote"] == 1.0
    assert yes["passages"][0]["end"] - yes["passages"][0]["begin"] >= 27
    assert no["watermarked"] is False


def test_the_text_report_names_the_file_and_the_verdict(
    run: Run, tmp_path: Path, marked: str
) -> None:
    (tmp_path / "marked.txt").write_text(marked, "utf-8")
    out = run("detect", "marked.txt", "-k", "mine").stdout.decode()
    assert out.startswith("marked.txt\nWATERMARKED. p = ")
    assert "█" in out
    brief = run("detect", "marked.txt", "-k", "mine", "--brief").stdout.decode()
    assert brief.startswith("marked.txt\nWATERMARKED.")
    assert "█" not in brief


def test_every_way_in_gives_the_same_verdict(run: Run, tmp_path: Path, marked: str) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text(marked, "utf-8")
    (folder / "b.md").write_bytes(marked.encode("utf-16"))
    (folder / "c.jsonl").write_text(json.dumps({"body": marked}) + "\n")
    from_folder = rows_of(run("detect", "texts", "-k", "mine", "--json", "--field", "body"))
    assert [row["source"] for row in from_folder] == [
        "texts/a.txt",
        "texts/b.md",
        "texts/c.jsonl:1",
    ]
    piped = rows_of(run("detect", "-k", "mine", "--json", given=marked.encode()))
    dashed = rows_of(run("detect", "-", "-k", "mine", "--json", given=marked.encode("utf-16")))
    assert piped[0]["source"] == dashed[0]["source"] == "-"
    everywhere = [{**row, "source": ""} for row in [*from_folder, *piped, *dashed]]
    assert all(row == everywhere[0] for row in everywhere)
    assert everywhere[0]["watermarked"] is True


def test_statistics_and_topics_can_be_chosen(run: Run, marked: str) -> None:
    choices = (
        ["--statistic", "edge_vote"],
        ["--topic", "free"],
        ["--splitter", "sentencex", "--language", "en"],
        ["--edits"],
    )
    for extra in choices:
        [row] = rows_of(run("detect", "-k", "mine", "--json", *extra, given=marked.encode()))
        assert row["watermarked"] is True
    other = run("detect", "-k", "mine", "--splitter", "punkt", given=marked.encode())
    assert other.returncode == 1
    assert b"'en' and the splitter 'sentencex'" in other.stderr
    fixed = ("detect", "-k", "mine", "--json", "--statistic", "global_bits", "--threshold")
    assert rows_of(run(*fixed, "0.5", given=marked.encode()))[0]["watermarked"] is True
    assert rows_of(run(*fixed, "1.0", given=marked.encode()))[0]["watermarked"] is False


@pytest.mark.parametrize("content", [b"", b"   \n\n", b"# Title only", b"\xff\xfe"])
def test_a_text_without_sentences_has_no_verdict(run: Run, content: bytes) -> None:
    done = run("detect", "-k", "mine", "--json", given=content)
    assert done.returncode == 0
    [row] = rows_of(done)
    assert row["watermarked"] is None
    assert row["p_value"] is None
    assert row["key_id"] is None
    assert row["piece_count"] == 0
    assert run("detect", "-k", "mine", given=content).stdout.startswith(b"CANNOT TELL.")


def test_one_bad_source_leaves_the_others_judged(run: Run, tmp_path: Path, plain: str) -> None:
    (tmp_path / "good.txt").write_text(plain, "utf-8")
    (tmp_path / "rows.jsonl").write_text(
        json.dumps({"text": plain}) + '\nnot json\n{"other": 1}\n' + json.dumps({"text": plain})
    )
    done = run("detect", "absent.txt", "good.txt", "rows.jsonl", "-k", "mine", "--json")
    assert done.returncode == 1
    rows = rows_of(done)
    assert [row["source"] for row in rows] == [
        "absent.txt",
        "good.txt",
        *(f"rows.jsonl:{number}" for number in range(1, 5)),
    ]
    assert ["error" in row for row in rows] == [True, False, False, True, True, False]
    result = run("detect", "absent.txt", "good.txt", "-k", "mine")
    assert result.returncode == 1
    assert result.stderr.decode() == "Error: Cannot read absent.txt: No such file or directory.\n"
    assert b"NO WATERMARK FOUND" in result.stdout


@pytest.mark.usefixtures("minilm_folder")
def test_another_encoder_is_refused_by_the_name_of_the_right_one(run: Run) -> None:
    done = run("detect", "-k", "mine", "--encoder", "minilm", given=b"One. Two.")
    assert done.returncode == 1
    assert done.stdout == b""
    assert "--encoder potion" in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_all_keys_finds_the_one_that_marked(
    run: Run, tmp_path: Path, key: WatermarkKey, marked: str
) -> None:
    Keyring(tmp_path / "ring").add(new_key("potion", method="hamming"), name="other")
    Keyring(tmp_path / "ring").add(new_key("minilm"), name="third")
    done = run("detect", "-k", "mine", "--all-keys", "--json", given=marked.encode())
    assert done.returncode == 0
    [row] = rows_of(done)
    assert row["keys"] == 3
    assert row["key_id"] == key.id
    assert row["watermarked"] is True
    assert row["p_value"] == pytest.approx(3 / (row["references"] + 1))
    refused = run("detect", "--all-keys", "--statistic", "margin", given=marked.encode())
    assert refused.returncode == 1
    assert b"of several methods or encoders" in refused.stderr


def test_a_retired_key_still_detects(run: Run, marked: str, key: WatermarkKey) -> None:
    assert run("keys", "rotate", "mine", "--name", "next").returncode == 0
    [row] = rows_of(run("detect", "-k", "mine", "--json", given=marked.encode()))
    assert row["watermarked"] is True
    [row] = rows_of(run("detect", "-k", "next", "--json", given=marked.encode()))
    assert row["watermarked"] is False


def paragraphs(articles: list[str]) -> list[str]:
    """The encyclopaedia in pieces of seven sentences."""
    splitter = load_splitter()
    passages = []
    for text in articles[:60]:
        carrying = splitter.split(text[:8000]).carrying
        passages += [" ".join(carrying[i : i + 7]) for i in range(0, len(carrying) - 6, 7)]
    return passages


def test_thresholds_are_fitted_and_then_decide(
    run: Run, tmp_path: Path, key: WatermarkKey, articles: list[str], marked: str
) -> None:
    every = paragraphs(articles)
    half = len(every) // 2
    assert half > 100
    for name, part in (("fit", every[::2]), ("held", every[1::2])):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(json.dumps({"text": text}) + "\n" for text in part)
        )
    done = run("calibrate", "fit.jsonl", "-k", "mine", "--out", "c.json", "--level", "0.05")
    assert done.returncode == 0, done.stderr
    fitted = json.loads((tmp_path / "c.json").read_text())
    assert fitted["key_id"] == key.id
    assert fitted["level"] == 0.05
    assert fitted["provenance"]["texts"] == len(every[::2])
    assert len(fitted["thresholds"]) >= 3

    judged = rows_of(run("detect", "held.jsonl", "-k", "mine", "--calibration", "c.json", "--json"))
    assert len(judged) == half
    assert {row["statistic"] for row in judged} == {"margin"}
    assert {row["level"] for row in judged} == {0.05}
    assert all(row["decision_threshold"] is not None for row in judged if row["piece_count"] > 1)
    rate = np.mean([row["watermarked"] is True for row in judged])
    print(f"\n{rate:.3f} of {half} held-out paragraphs above the threshold at 0.05")
    assert rate <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / half)
    done = run("detect", "-k", "mine", "--calibration", "c.json", "--json", given=marked.encode())
    assert rows_of(done)[0]["watermarked"] is True

    Keyring(tmp_path / "ring").add(new_key("potion", method="hamming"), name="other")
    refused = run("detect", "-k", "other", "--calibration", "c.json", given=b"One. Two.")
    assert refused.returncode == 1
    assert key.id in refused.stderr.decode()
    assert "is valid only for it" in refused.stderr.decode()


def test_what_cannot_be_calibrated_says_why(run: Run, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("One here. Two here. Three here.")
    for extra, message in (
        (["few.txt", "--out", "c.json"], "Add texts or raise the level"),
        (["few.txt", "--out", "c.json", "--level", "0"], "between 0 and 1"),
        (["few.txt", "--out", "c.json", "--level", "2"], "between 0 and 1"),
        (["few.txt", "--out", "no/such/c.json", "--level", "0.9"], "Cannot write"),
        (["absent.txt", "--out", "c.json"], "Cannot read absent.txt"),
    ):
        done = run("calibrate", "-k", "mine", *extra)
        assert done.returncode == 1
        assert message in done.stderr.decode()
        assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--level", "0"],
        ["--level", "nan"],
        ["--references", "-1"],
        ["--calibration", "deep.json"],
        ["--calibration", "ring/mine.json"],
        ["--key", "deep.json"],
        ["--key", "ring"],
        ["--key", "a" * 300],
        ["--encoder", "nonsense"],
        ["--encoder", "ring"],
        ["--encoder", "openai:x"],
        ["--encoder", "openai:x@nowhere"],
        ["--language", "tlh"],
        ["--splitter", "nonsense"],
        ["a" * 300],
        ["ring/nothing.txt"],
    ],
)
def test_no_bad_input_ends_in_a_traceback(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 99_999)
    deep.chmod(0o600)
    done = run("detect", "-k", "mine", *arguments, given=b"One here. Two here.")
    assert done.returncode == 1
    assert done.stderr.startswith(b"Error: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_any_name_and_any_terminal_will_do(run: Run, tmp_path: Path, encoding: str) -> None:
    oddly_named(tmp_path)
    for extra in ([], ["--json"]):
        done = run("detect", "texts", "-k", "mine", *extra, encoding=encoding)
        assert done.returncode == 0
        assert b"odd" in done.stdout


def oddly_named(folder: Path) -> None:
    """One text in ``texts``; it and its name have letters that some terminals lack."""
    (folder / "texts").mkdir()
    odd = Path(os.fsdecode(os.fsencode(folder / "texts") + b"/odd\xff.txt"))
    odd.write_text("One here. Two 你好.", "utf-8")


def test_the_installed_command_on_a_poor_terminal(
    run: Run, tmp_path: Path, ring: dict[str, str]
) -> None:
    """A separate process prints the same as this one."""
    oddly_named(tmp_path)
    done = subprocess.run(
        [INSTALLED, "detect", "texts", "-k", "mine", "--json"],
        cwd=tmp_path,
        env={**os.environ, **ring, "PYTHONIOENCODING": "ascii:strict"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rows_of(done) == rows_of(run("detect", "texts", "-k", "mine", "--json"))


def test_a_reader_that_goes_away_is_no_trouble(tmp_path: Path, ring: dict[str, str]) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "One. Two."}\n' * 1000)
    done = subprocess.run(
        f"'{INSTALLED}' detect rows.jsonl -k mine --json | head -1",
        shell=True,
        cwd=tmp_path,
        env={**os.environ, **ring},
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    assert len(rows_of(done)) == 1
