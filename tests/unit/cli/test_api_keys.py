"""API keys from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hammingmark.server.authorization import ApiKeys

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]


@pytest.mark.parametrize("by_variable", [False, True])
def test_an_api_key_is_made_listed_and_withdrawn(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    path = tmp_path / "api-keys.jsonl"
    named = () if by_variable else ("--file", str(path))
    if by_variable:  # as the service itself reads it
        monkeypatch.setenv("HAMMINGMARK_SERVE_API_KEYS", str(path))
    code, out, err = command("api-keys", "new", "website", "--scope", "generate", *named)
    assert code == 0
    assert str(path) in err
    key = ApiKeys(path).find(out.strip())
    assert key is not None
    assert key.name == "website"
    (row,) = command("api-keys", "list", "--json", *named)[1].splitlines()
    assert json.loads(row)["scopes"] == ["generate"]
    assert command("api-keys", "remove", "website", *named)[0] == 0
    assert command("api-keys", "list", *named)[1] == ""


def test_without_a_file_it_is_asked_for(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HAMMINGMARK_SERVE_API_KEYS", raising=False)
    code, _, err = command("api-keys", "new", "website", "--scope", "generate")
    assert code == 2
    assert "--file" in err
