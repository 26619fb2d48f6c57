"""Backends for the server of these tests, and requests for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.unit.backends.openai_server import KEY

from hammingmark import testing
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.protocols import Backend
from hammingmark.records import Candidate, Prompt, Request

PROMPT = Prompt("Once upon a time.")


@dataclass
class Maker:
    """Creates backends for one server, with a timeout that is long enough for tests."""

    url: str
    made: list[OpenAIBackend] = field(default_factory=list)

    def __call__(self, **options: Any) -> OpenAIBackend:
        settings = {"api_key": KEY, "retries": 2, "backoff": 0.01, "timeout": 60.0} | options
        self.made.append(OpenAIBackend(self.url, "tiny", **settings))
        return self.made[-1]


def ask(
    number: int,
    *,
    seed: int = 0,
    prompt: Prompt = PROMPT,
    written: str = "",
    max_tokens: int = 50,
    stop_condition: Callable[[str], bool] = lambda text: False,
) -> Request:
    return Request(number, prompt, written, seed or 10 * number, max_tokens, stop_condition)


def draw(backend: Backend, *requests: Request, **named: Any) -> dict[int, Candidate]:
    """The candidates that a backend draws; a failed request raises its failure."""
    candidates = testing.draw(backend, *requests, **named)
    for candidate in candidates.values():
        candidate.require_text()
    return candidates
