"""``detect --report``: a page to print or to keep."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Run

from hammingmark.cli import detect as detect_module
from hammingmark.cli import keys as keys_module
from hammingmark.testing import FakeEncoder

TEXT = "It rained.\n\nThe river rose all night. Nobody slept in the mill."


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, command: Run) -> None:
    for module in (detect_module, keys_module):
        monkeypatch.setattr(module, "fetch_encoder", lambda text: FakeEncoder())
    command("keys", "new", "--name", "mine")


def test_a_report_is_written_beside_the_verdict(command: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    call = ("detect", "--key", "mine", "--report", "a.html", "a.txt")
    code, out, err = command(*call)
    assert code == 0, err
    assert "p-value" in out
    page = (tmp_path / "a.html").read_text("utf-8")
    assert hashlib.sha256(TEXT.encode()).hexdigest() in page
    assert "mine (hm-" in page
    code, _, err = command(*call)
    assert code == 1
    assert "a.html" in err
    assert command(*call, "--overwrite")[0] == 0


@pytest.mark.parametrize("names", [("a.txt", "b.txt"), ("none.txt", "a.txt", "b.txt"), (".",)])
def test_a_report_on_several_texts_is_refused_before_any_is_judged(
    command: Run, tmp_path: Path, names: tuple[str, ...]
) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(TEXT)
    code, out, err = command("detect", "--key", "mine", "--report", "a.html", *names)
    assert code == 1
    assert "--report" in err
    assert out == ""
    assert not (tmp_path / "a.html").exists()


def test_what_cannot_be_read_beside_the_text_of_a_report_is_named(
    command: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    code, _, err = command("detect", "--key", "mine", "--report", "a.html", "none.txt", "a.txt")
    assert code == 1
    assert "none.txt" in err
    assert (tmp_path / "a.html").exists()
