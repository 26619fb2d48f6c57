"""``detect --backend``: for keys whose method draws sentences again, and for no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Run

from hammingmark.cli import detect as detect_module
from hammingmark.cli import generate as generate_module
from hammingmark.cli import keys as keys_module
from hammingmark.testing import FakeBackend, FakeEncoder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, command: Run, asked: list[str]) -> Run:
    def fetch_encoder(spec: str) -> FakeEncoder:
        asked.append(spec)
        return FakeEncoder()

    def fetch_backend(spec: str, **options: object) -> FakeBackend:
        asked.append(spec)
        return FakeBackend()

    for module in (detect_module, keys_module, generate_module):
        monkeypatch.setattr(module, "fetch_encoder", fetch_encoder)
    for module in (detect_module, generate_module):
        monkeypatch.setattr(module, "fetch_backend", fetch_backend)
    for name in ("online", "offline"):
        made = command("keys", "new", "--name", name, "--method", f"pmark-{name}", "--set", "N=16")
        assert made[0] == 0, made[2]
    asked.clear()
    return command


def test_a_text_is_written_and_found_with_the_model(run: Run, tmp_path: Path) -> None:
    code, story, trouble = run(
        "generate", "-k", "online", "--prompt", "It rained.", "--max-tokens", "250"
    )
    assert code == 0, trouble
    (tmp_path / "t.txt").write_text(story)
    code, shown, trouble = run("detect", "t.txt", "-k", "online", "--backend", "fake", "--json")
    assert code == 0, trouble
    verdict = json.loads(shown)
    assert verdict["watermarked"] is True
    scored = [piece for piece in verdict["pieces"] if piece["score"] is not None]
    assert len(scored) == verdict["piece_count"] - 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-k", "online"), "Name it as the backend (--backend)"),
        (("-k", "offline", "--backend", "fake"), "--backend"),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_work(
    run: Run, tmp_path: Path, asked: list[str], words: tuple[str, ...], told: str
) -> None:
    (tmp_path / "t.txt").write_text("It rained. It snowed. It cleared.")
    code, _, trouble = run("detect", "t.txt", *words)
    assert code == 1
    assert told in trouble
    assert asked == []
