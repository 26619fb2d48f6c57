"""``hammingmark demo`` over fakes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.conftest import Run

from hammingmark.cli import demo as demo_module
from hammingmark.testing import FakeBackend, FakeEncoder


@pytest.fixture(autouse=True)
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The language models that were loaded."""
    specs: list[str] = []

    def fetch_backend(spec: str, **options: Any) -> FakeBackend:
        specs.append(spec)
        return FakeBackend(fail_after=0 if spec == "broken" else None)

    monkeypatch.setattr(demo_module, "fetch_backend", fetch_backend)
    monkeypatch.setattr(demo_module, "fetch_encoder", lambda spec: FakeEncoder())
    return specs


def rows(out: str) -> list[list[str]]:
    """The rows of the tables without their heads: of the costs, then of the verdicts."""
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    return [line for line in lines if line]


def test_both_texts_are_equally_long_and_their_cost_is_told(command: Run) -> None:
    code, out, _ = command("demo", "--max-sentences", "7")
    assert code == 0
    marked, plain, *verdicts = rows(out)
    assert [marked[0], plain[0]] == ["marked", "plain"]
    assert marked[1] == plain[1] == "7"
    assert int(marked[3]) > int(marked[2])
    assert plain[4] == "1.0"
    assert [row[:2] for row in verdicts] == [
        [answer, key] for answer in ("marked", "plain") for key in ("the right key", "a wrong key")
    ]


def test_another_model_is_one_option(command: Run, fetched: list[str]) -> None:
    assert command("demo", "--max-sentences", "2")[0] == 0
    assert command("demo", "--max-sentences", "2", "--backend", "qwen-coder")[0] == 0
    assert fetched == ["smollm2", "qwen-coder"]


def test_a_model_that_fails_ends_the_demo(command: Run) -> None:
    code, out, err = command("demo", "--backend", "broken")
    assert code == 1
    assert err.startswith("Error: ")
    assert rows(out) == []
