"""Commands run in their own folder, with their own keyring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command import run_main

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]


@pytest.fixture
def fetched() -> list[str]:
    """The specifications of the components that a command loaded."""
    return []


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs the program in an empty folder; returns exit code, output and errors."""
    monkeypatch.setenv("HAMMINGMARK_KEYRING", str(tmp_path / "ring"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Outcome:
        code = run_main(*arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run
