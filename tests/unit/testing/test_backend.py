"""A language model without a model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hammingmark.errors import BackendError
from hammingmark.protocols import Backend
from hammingmark.records import Message, Prompt
from hammingmark.testing import FakeBackend, FakeSplitter, backend_checks, draw
from hammingmark.testing.backend_checks import QUESTION, ask, greedy


@pytest.mark.parametrize("check", backend_checks())
def test_it_keeps_to_what_every_backend_does(check: Callable[[Backend], None]) -> None:
    check(FakeBackend())


def test_the_seed_decides_and_not_the_company() -> None:
    backend = FakeBackend(parallel=2)
    requests = [ask(number, seed=number % 4, max_tokens=20) for number in range(8)]
    together = draw(backend, *requests)
    alone = {each.number: draw(backend, each)[each.number] for each in requests}
    assert together == alone
    assert len({candidate.text for candidate in alone.values()}) == 4
    assert together[0].text == together[4].text


def test_a_text_is_sentences_and_has_an_end() -> None:
    candidate = draw(FakeBackend(), ask(0, max_tokens=1000))[0]
    assert candidate.finished
    assert not candidate.truncated
    sentences = FakeSplitter().split(candidate.text).carrying
    assert len(sentences) >= 6
    assert all(each.startswith("The ") and each.endswith(".") for each in sentences)


def test_a_space_stands_where_words_meet() -> None:
    backend = FakeBackend()
    assert greedy(backend).startswith(" The")
    assert greedy(backend, Prompt("It rained.\n")).startswith("The")
    assert greedy(backend, Prompt(messages=(QUESTION,))).startswith("The")
    begun = Prompt(messages=(QUESTION, Message("assistant", "Well.")))
    assert greedy(backend, begun).startswith(" The")


def test_candidates_finish_when_they_are_as_long_as_the_steps_taken() -> None:
    backend = FakeBackend(parallel=2, sentences=lambda request: " word" * request.seed)
    session = backend.open()
    for number, length in enumerate([3, 5, 1, 2]):
        session.submit(ask(number, seed=length, max_tokens=9))
    found = [([each.number for each in session.wait()], backend.steps) for _ in range(3)]
    assert found == [([0], 3), ([2], 4), ([1], 5)]
    session.cancel(3)
    with pytest.raises(BackendError):
        session.wait()
    assert session.most == 4
    assert [request.number for request in backend.drawn] == [0, 2, 1]


def test_they_finish_in_the_order_that_is_asked_for_until_it_fails() -> None:
    backend = FakeBackend(order=lambda asked: asked[::-1], fail_after=2)
    session = backend.open()
    for number in range(3):
        session.submit(ask(number))
    assert [each.number for _ in range(2) for each in session.wait()] == [2, 1]
    with pytest.raises(BackendError):
        session.wait()


def test_what_it_says_can_be_given() -> None:
    given = "  Yes,\n\n*no*. \n"
    backend = FakeBackend(sentences=lambda request: given)
    candidate = draw(backend, ask(0))[0]
    assert candidate.text == given
    assert candidate.pieces == ("  Yes,", "\n\n*no*.", " \n")
    assert draw(backend, ask(0, max_tokens=1))[0].truncated


def test_the_context_is_shared_by_prompt_text_and_candidate() -> None:
    backend = FakeBackend(context=10)
    candidate = backend.candidate(ask(0, Prompt("one two three"), written=" four", max_tokens=9))
    assert len(candidate.pieces) == 6
    assert candidate.truncated
    assert candidate.failure is not None
    assert candidate.failure.kind == "context_overflow"
    limited = backend.candidate(ask(0, Prompt("one two three"), written=" four", max_tokens=6))
    assert limited.truncated
    assert limited.failure is None
    long = draw(backend, ask(0, Prompt("word " * 10)), ask(1, Prompt("word")))
    assert (long[0].pieces, long[0].finished) == ((), False)
    assert long[0].failure is not None
    assert long[0].failure.kind == "context_overflow"
    assert long[1].pieces


def test_a_closed_session_takes_no_requests() -> None:
    backend = FakeBackend()
    session = backend.open()
    session.submit(ask(0))
    backend.close()
    assert session.closed
    with pytest.raises(BackendError):
        session.submit(ask(1))
