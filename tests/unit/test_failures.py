"""What goes wrong with a model, as data: from an exception to the text that ended with it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import get_args

import pytest

from hammingmark.errors import (
    BackendError,
    EncoderError,
    Failure,
    FailureKind,
    HammingMarkError,
    InferenceError,
)
from hammingmark.generation.config import GenerationConfig
from hammingmark.generation.generate import Writer
from hammingmark.records import Candidate, Generation, Request
from hammingmark.testing import FakeBackend, FakeSplitter

KINDS: tuple[FailureKind, ...] = get_args(FailureKind)
ABOUT_TEXT = {"context_overflow", "content_filter", "prompt_refused", "no_candidate"}


def failure_of(kind: FailureKind) -> Failure:
    return Failure(kind, "It failed.", status=429, retry_after=1.5, detail="no.", advice="Go on.")


@pytest.mark.parametrize("error", [BackendError, EncoderError])
@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_is_an_error_and_back(error: type[InferenceError], kind: FailureKind) -> None:
    made = error(
        "It failed.", kind=kind, status=429, retry_after=1.5, detail="no.", advice="Go on."
    )
    assert (made.kind, made.status, made.retry_after) == (kind, 429, 1.5)
    assert made.failure.origin == ("encoder" if error is EncoderError else "model")
    again = made.failure.error()
    assert type(again) is error
    assert again.failure == made.failure
    assert str(again) == str(made) == "It failed. It says: no. Go on."
    assert pickle.loads(pickle.dumps(made)).failure == made.failure


def test_a_sentence_is_enough() -> None:
    made = BackendError("The model went away.")
    assert made.failure == Failure("unavailable", "The model went away.")
    assert str(made) == "The model went away."
    assert isinstance(made, HammingMarkError)


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_model_fails_about_a_text(kind: FailureKind) -> None:
    assert failure_of(kind).is_about_text is (kind in ABOUT_TEXT)
    assert not Failure(kind, "It failed.", "encoder").is_about_text


@dataclass
class FailingBackend(FakeBackend):
    """Fails after some sentences.

    Attributes:
        failure: with which it fails.
        after: sentences of a text that it writes before.
        only: the prompt at which it fails; None for all.
        raises: whether it raises the failure, instead of giving a candidate that has it.
    """

    failure: Failure = field(default_factory=lambda: Failure("unavailable", "It failed."))
    after: int = 0
    only: str | None = None
    raises: bool = False

    def candidate(self, request: Request) -> Candidate:
        other = self.only is not None and request.prompt.text != self.only
        if other or request.written.count(".") < self.after:
            return super().candidate(request)
        if self.raises:
            raise self.failure.error()
        return Candidate(request.number, (), False, failure=self.failure)


def write(backend: FakeBackend) -> Generation:
    config = GenerationConfig(max_sentences=4, in_parts=True)
    return Writer(backend, FakeSplitter(), None, None, config).write("It rained.", seed=1)


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_generation_carries_the_failure_of_its_candidate(kind: FailureKind, raises: bool) -> None:
    failure = failure_of(kind)
    made = write(FailingBackend(failure=failure, raises=raises))
    assert (made.stopped, made.failure, made.text) == ("error", failure, "")
    assert made.error == failure.message


def test_a_text_that_ends_well_has_none() -> None:
    made = write(FakeBackend())
    assert (made.stopped, made.failure, made.error) == ("sentences", None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_candidate_without_text_raises_its_failure(kind: FailureKind) -> None:
    candidate = Candidate(1, (), False, failure=failure_of(kind))
    with pytest.raises(BackendError) as caught:
        candidate.require_text()
    assert caught.value.failure == failure_of(kind)
    Candidate(1, (" It",), False, failure=failure_of(kind)).require_text()
