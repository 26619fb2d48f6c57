"""``keys derive``, ``generate --label`` and ``detect --master``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command import run_main

from hammingmark.cli import detect as detect_module
from hammingmark.cli import generate as generate_module
from hammingmark.cli import keys as keys_module
from hammingmark.cli.detect import read_labels
from hammingmark.testing import FakeBackend, FakeEncoder

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("HAMMINGMARK_KEYRING", str(tmp_path / "ring"))
    for module in (detect_module, keys_module, generate_module):
        monkeypatch.setattr(module, "fetch_encoder", lambda text: FakeEncoder())
    monkeypatch.setattr(generate_module, "fetch_backend", lambda text, **options: FakeBackend())
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        assert run_main(*arguments) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    run("keys", "new", "--name", "master", "--preset", "robust")
    return run


def test_a_derived_key_is_shown_with_its_lineage(run: Run) -> None:
    master = json.loads(run("keys", "show", "master", "--json"))
    description = run("keys", "derive", "master", "2026-11-16", "--name", "day")
    assert f"from     {master['id']}, label 2026-11-16" in description
    again = json.loads(run("keys", "derive", "master", "2026-11-16", "--out", "d.json", "--json"))
    assert again["parent"] == master["id"]
    assert again["id"] == json.loads(run("keys", "show", "day", "--json"))["id"]
    assert f"{master['id']} 2026-11-16" in run("keys", "list")


def test_what_a_label_marked_is_found_by_searching_days(run: Run, tmp_path: Path) -> None:
    story = run(
        "generate", "--key", "master", "--label", "2026-11-16", "--prompt", "It rained.",
        "--max-tokens", "400",
    )  # fmt: skip
    (tmp_path / "t.txt").write_text(story)
    days = ("--master", "master", "--dates", "2026-11-01..2026-11-30")
    verdict = json.loads(run("detect", "t.txt", *days, "--json"))
    assert verdict["watermarked"] is True
    assert verdict["label"] == "2026-11-16"
    assert verdict["keys"] == 30
    (tmp_path / "labels.txt").write_text("2026-11-16\n\nalice\n2026-11-16\n")
    labels = ("--master", "master", "--labels", "labels.txt")
    assert json.loads(run("detect", "t.txt", *labels, "--json"))["keys"] == 2
    text = run("detect", "t.txt", *labels)
    assert ", label 2026-11-16" in text
    assert "corrected for 2 keys" in text
    plain = json.loads(run("detect", "t.txt", "--key", "master", "--json"))
    assert plain["watermarked"] is not True
    run("keys", "derive", "master", "2026-11-16", "--name", "day")
    assert json.loads(run("detect", "t.txt", "--key", "day", "--json"))["watermarked"] is True


def test_labels_are_read_once_each_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "labels.txt"
    file.write_text("b\na\n b \n\n")
    assert read_labels(file, None) == ["b", "a"]
    assert read_labels(None, "2026-02-27..2026-03-01") == ["2026-02-27", "2026-02-28", "2026-03-01"]
    assert read_labels(None, "2026-02-27") == ["2026-02-27"]
    assert read_labels(file, "2026-W09..2026-W10") == ["b", "a", "2026-W09", "2026-W10"]
    assert read_labels(None, None) is None
