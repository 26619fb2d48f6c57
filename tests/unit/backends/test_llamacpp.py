"""Errors of llama.cpp become failures; its process is a fake, so that no model is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, cast

import pytest
from tests.unit.backends.openai_client import ask

from hammingmark.backends.llamacpp import LlamaCppSession
from hammingmark.backends.llamacpp_process import LlamaCppProcess
from hammingmark.errors import BackendError, Failure, FailureKind
from hammingmark.records import Candidate


@dataclass
class Lane:
    """Draws the same for everybody.

    Attributes:
        pieces: what it draws.
        complaint: with which it ends.
    """

    pieces: list[dict[str, Any]] = field(default_factory=list)
    complaint: Any = None

    def draw(self, body: Any, *, receive: Any, **named: Any) -> Any:
        for piece in self.pieces:
            receive(piece)
        return self.complaint


@dataclass
class Process:
    """A process with one lane.

    Attributes:
        lane: the lane.
        reason: why it has ended; None while it runs.
    """

    lane: Lane
    reason: BackendError | None = None
    lanes: SimpleQueue[Lane] = field(default_factory=SimpleQueue)

    def __post_init__(self) -> None:
        self.lanes.put(self.lane)

    @property
    def is_usable(self) -> bool:
        return self.reason is None

    def exit_reason(self) -> BackendError | None:
        return self.reason


def drawn(process: Process) -> Candidate:
    """The candidate that it draws.

    Raises:
        BackendError: it has ended.
    """
    session = LlamaCppSession(cast(LlamaCppProcess, process), workers=1, context=512, trained=1024)
    try:
        session.submit(ask(1))
        return session.wait()[0]
    finally:
        session.close()


@pytest.mark.parametrize(
    ("complaint", "kind", "detail"),
    [
        ({"n_prompt_tokens": 600, "message": "too long"}, "context_overflow", ""),
        ("roles must alternate.", "prompt_refused", "roles must alternate."),
    ],
)
def test_a_prompt_that_is_refused_is_a_candidate(
    complaint: Any, kind: FailureKind, detail: str
) -> None:
    failure = drawn(Process(Lane(complaint=complaint))).failure
    assert failure is not None
    assert (failure.kind, failure.detail) == (kind, detail)
    assert failure.is_about_text


def test_a_text_that_fills_the_context_keeps_what_it_has() -> None:
    piece = {"text": " It", "reason": "length", "drawn": 1, "read": 511, "cached": 0}
    candidate = drawn(Process(Lane([piece])))
    assert (candidate.text, candidate.truncated) == (" It", True)
    assert candidate.failure is not None
    assert candidate.failure.kind == "context_overflow"


def test_a_process_that_has_ended_is_an_error() -> None:
    reason = Failure("closed", "The model was closed.").error()
    assert isinstance(reason, BackendError)
    with pytest.raises(BackendError) as caught:
        drawn(Process(Lane(), reason))
    assert caught.value.kind == "closed"


def test_an_error_of_our_own_quotes_nothing_to_others() -> None:
    """llama.cpp's message may quote the prompt."""
    piece = {"reason": None, "drawn": 1, "read": 1, "cached": 0}  # without a text
    with pytest.raises(BackendError) as caught:
        drawn(Process(Lane([piece])))
    failure = caught.value.failure
    assert failure.kind == "internal"
    assert "KeyError" in failure.summary
    assert failure.detail == "'text'"
