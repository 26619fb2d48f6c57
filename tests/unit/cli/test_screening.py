"""``detect`` on many texts: what it says about them together."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from tests.schemas import assert_valid
from tests.unit.cli.conftest import Run

from hammingmark.cli import detect as detect_module
from hammingmark.cli import generate as generate_module
from hammingmark.cli import keys as keys_module
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.fakes import paragraph


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Run) -> Path:
    """A key and a folder of one marked and four unmarked texts."""
    for module in (detect_module, keys_module, generate_module):
        monkeypatch.setattr(module, "fetch_encoder", lambda text: FakeEncoder())
    monkeypatch.setattr(generate_module, "fetch_backend", lambda text, **options: FakeBackend())
    command("keys", "new", "--name", "mine")
    code, marked, err = command(
        "generate", "--key", "mine", "--prompt", "It rained.", "--max-tokens", "160"
    )
    assert code == 0, err
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "0.txt").write_text(marked)
    for number in range(1, 5):
        (folder / f"{number}.txt").write_text(paragraph(Random(number)))
    return folder


def test_several_texts_get_a_summary_on_standard_error(command: Run, texts: Path) -> None:
    code, out, err = command("detect", "--key", "mine", "--brief", "texts")
    assert code == 0, err
    _, alone, silent = command("detect", "--key", "mine", "--brief", "texts/0.txt")
    assert out.startswith(alone)
    assert silent == ""
    for name in ("Holm", "Benjamini-Yekutieli", "Benjamini-Hochberg", "texts/0.txt", "0.05 "):
        assert name in err
    assert "texts/1.txt" not in err
    code, out, err = command("detect", "--key", "mine", "--json", "texts")
    assert "Holm" not in out + err
    assert len(out.splitlines()) == 5


def test_the_summary_is_written_on_request(command: Run, texts: Path, tmp_path: Path) -> None:
    call = ("detect", "--key", "mine", "--json", "--level", "0.02", "--discovery-rate", "0.1")
    code, out, err = command(*call, "--summary", "s.json", "texts")
    assert code == 0, err
    verdicts = [json.loads(line) for line in out.splitlines()]
    summary = json.loads((tmp_path / "s.json").read_text())
    assert_valid(summary, "screening-1")
    assert summary["texts"] == len(verdicts) == 5
    tested = [each for each in verdicts if each["p_value"] is not None]
    assert summary["tested"] == len(tested)
    assert summary["expected_false_positives"] == pytest.approx(0.02 * len(tested))
    assert summary["exact"] is True
    rates = {each["name"]: each["rate"] for each in summary["corrections"]}
    assert rates == {"holm": 0.02, "benjamini-yekutieli": 0.1, "benjamini-hochberg": 0.1}
    for each in summary["corrections"]:
        stands = [v for v in tested if v["joint_p_value"] <= each["largest_p_value"]]
        assert len(stands) == each["stands"]
    assert summary["smallest"][0]["source"] == verdicts[0]["source"]
    code, _, err = command(*call, "--summary", "s.json", "texts")
    assert code == 1
    assert "s.json" in err
    assert command(*call, "--summary", "s.json", "--overwrite", "texts")[0] == 0


def test_keyless_tests_promise_nothing(command: Run, texts: Path, tmp_path: Path) -> None:
    new = ("keys", "new", "--name", "open", "--method", "simmark", "--set", "gamma=0.1")
    assert command(*new)[0] == 0
    code, _, err = command("detect", "--key", "open", "--summary", "s.json", "texts")
    assert code == 0, err
    assert json.loads((tmp_path / "s.json").read_text())["exact"] is False
    assert "not exact" in err


def test_a_discovery_rate_is_checked_before_anything_is_read(command: Run, texts: Path) -> None:
    code, out, err = command("detect", "--key", "mine", "--discovery-rate", "2", "absent.txt")
    assert (code, out) == (1, "")
    assert "2.0" in err


def test_shared_sentences_are_reported_and_counted_once_on_request(
    command: Run, texts: Path, tmp_path: Path
) -> None:
    header = "The old harbour was quiet. Nobody had come. A lamp burned."
    for number in range(1, 5):
        file = texts / f"{number}.txt"
        file.write_text(f"{header} {file.read_text()}")
    _, _, err = command("detect", "--key", "mine", "--brief", "texts")
    assert "--shared-once" in err
    call = ("detect", "--key", "mine", "--shared-once", "texts")
    code, out, err = command(*call, "--brief", "--summary", "s.json")
    assert code == 0, err
    assert "texts/1.txt, sentences 1 to 3, in 4 texts" in out
    summary = json.loads((tmp_path / "s.json").read_text())
    assert_valid(summary, "screening-1")
    assert (summary["texts"], summary["tested"]) == (5, 6)
    assert (summary["shared_sentences"], summary["most_sharing"]) == (3, 4)
    code, out, _ = command(*call, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["shared"] for row in rows] == [
        None,
        None,
        {"begin": 0, "end": 3, "fewest_texts": 4, "most_texts": 4},
        *[None] * 3,
    ]
    assert rows[1]["source"] == rows[2]["source"]
    pieces = [[piece["counted"] for piece in row["pieces"]] for row in rows[1:3]]
    assert pieces[0] == [not counts for counts in pieces[1]]
    _, alone, _ = command("detect", "--key", "mine", "--json", "texts/0.txt")
    assert {**json.loads(alone), "shared": None} == rows[0]


@pytest.mark.parametrize("file", ["-", "/dev/stdin"])
def test_texts_that_can_be_read_once_are_refused(command: Run, texts: Path, file: str) -> None:
    code, out, err = command("detect", "--key", "mine", "--shared-once", file)
    assert (code, out) == (1, "")
    assert file in err
