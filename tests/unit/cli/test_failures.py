"""``generate`` with a model that fails: the exit code, the message and the JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from tests.unit.cli.conftest import Run
from tests.unit.test_failures import FailingBackend, failure_of

from hammingmark.cli import generate as generate_module
from hammingmark.errors import FailureKind

WORDS = ("generate", "--no-watermark", "--max-tokens", "30")


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_a_failure_of_the_model_is_told_in_full(
    command: Run, monkeypatch: pytest.MonkeyPatch, kind: FailureKind
) -> None:
    backend = FailingBackend(failure=failure_of(kind))
    monkeypatch.setattr(generate_module, "fetch_backend", lambda spec, **options: backend)
    code, out, err = command(*WORDS, "--prompt", "It rained.", "--json")
    assert code == 1
    assert err.splitlines()[-1] == f"Error: {failure_of(kind).message}"
    row = json.loads(out)
    assert (row["stopped"], row["error"]) == ("error", failure_of(kind).message)


def test_of_many_prompts_each_line_says_what_failed(
    command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    backend = FailingBackend(failure=failure_of("rate_limited"), only="It rained.")
    monkeypatch.setattr(generate_module, "fetch_backend", lambda spec, **options: backend)
    rows = [{"text": "It snowed."}, {"text": "It rained."}]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, out, err = command(*WORDS, "--prompts", "prompts.jsonl")
    assert code == 1
    assert err.startswith("Error: 1 of 2 ")
    messages = [json.loads(line)["error"] for line in out.splitlines()]
    assert messages == [None, failure_of("rate_limited").message]
