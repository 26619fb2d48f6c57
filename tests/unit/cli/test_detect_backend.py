"""``detect --backend``: only for keys whose method draws sentences again."""

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
def run(monkeypatch: pytest.MonkeyPatch, command: Run, fetched: list[str]) -> Run:
    def fetch_encoder(spec: str) -> FakeEncoder:
        fetched.append(spec)
        return FakeEncoder()

    def fetch_backend(spec: str, **options: object) -> FakeBackend:
        fetched.append(spec)
        return FakeBackend()

    for module in (detect_module, keys_module, generate_module):
        monkeypatch.setattr(module, "fetch_encoder", fetch_encoder)
    for module in (detect_module, generate_module):
        monkeypatch.setattr(module, "fetch_backend", fetch_backend)
    for name in ("online", "offline"):
        created = command(
            "keys", "new", "--name", name, "--method", f"pmark-{name}", "--set", "N=16"
        )
        assert created[0] == 0, created[2]
    fetched.clear()
    return command


def test_a_text_is_written_and_found_with_the_model(run: Run, tmp_path: Path) -> None:
    code, story, err = run(
        "generate", "-k", "online", "--prompt", "It rained.", "--max-tokens", "250"
    )
    assert code == 0, err
    (tmp_path / "t.txt").write_text(story)
    code, out, err = run("detect", "t.txt", "-k", "online", "--backend", "fake", "--json")
    assert code == 0, err
    verdict = json.loads(out)
    assert verdict["watermarked"] is True
    scored = [piece for piece in verdict["pieces"] if piece["score"] is not None]
    assert len(scored) == verdict["piece_count"] - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-k", "online"), "Name it as the backend (--backend)"),
        (("-k", "offline", "--backend", "fake"), "--backend"),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_work(
    run: Run, tmp_path: Path, fetched: list[str], arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "t.txt").write_text("It rained. It snowed. It cleared.")
    code, _, err = run("detect", "t.txt", *arguments)
    assert code == 1
    assert message in err
    assert fetched == []
