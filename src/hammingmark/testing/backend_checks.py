"""The contract of every backend, as checks that fail with a message."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hammingmark.protocols import Backend, BackendCapabilities, Session, Tokenizer
from hammingmark.records import Candidate, Message, ModelUsage, Prompt, Request, Sampling
from hammingmark.testing.members import missing

TEXT = Prompt("The lighthouse had been dark for a year. Nobody in the village knew why.")
QUESTION = Message("user", "What is the capital of France?")
GREEDY = Sampling(temperature=0.0)
ODD_PROMPTS = ["", "🙂🙂🙂", "\x00\x01 \x07 odd bytes.", "日本語の文章です。"]


def backend_checks() -> list[Callable[[Backend], None]]:
    """The checks, each named after its requirement; the last one closes the backend.

    >>> from hammingmark.testing import FakeBackend, backend_checks
    >>> for check in backend_checks():
    ...     check(FakeBackend())
    """
    return [check for name, check in globals().items() if name.startswith("check_")]


def ask(
    number: int,
    prompt: Prompt = TEXT,
    *,
    written: str = "",
    seed: int = 1,
    max_tokens: int = 6,
    stop_condition: Callable[[str], bool] = lambda text: False,
) -> Request:
    """A request, with the defaults of most checks."""
    return Request(number, prompt, written, seed, max_tokens, stop_condition)


def greedy(backend: Backend, prompt: Prompt = TEXT, *, written: str = "") -> str:
    """The likeliest few tokens after a prompt and the text written since."""
    return draw(backend, ask(0, prompt, written=written), sampling=GREEDY)[0].text


def _several(backend: Backend, prompt: Prompt = TEXT, **changes: Any) -> list[Candidate]:
    """Candidates with four seeds, drawn at once."""
    requests = [ask(seed, prompt, seed=seed, **changes) for seed in range(4)]
    return list(draw(backend, *requests).values())


def check_it_is_a_backend(backend: Backend) -> None:
    """A backend has every member of the protocol."""
    absent = missing(backend, Backend)
    assert not absent, f"it lacks {', '.join(absent)} of protocols.Backend"
    assert isinstance(backend.capabilities, BackendCapabilities), (
        "its capabilities are not a protocols.BackendCapabilities"
    )
    session = backend.open()
    absent = missing(session, Session)
    session.close()
    assert not absent, f"its session lacks {', '.join(absent)} of protocols.Session"
    assert backend.name, "it has no name"
    widths = f"width {backend.width}, parallel {backend.parallel}"
    assert 1 <= backend.width <= backend.parallel, f"{widths}: not 1 <= width <= parallel"


def check_it_can_do_what_it_declares(backend: Backend) -> None:
    """It reports for each prompt whether it continues half a sentence, and loads its tokenizer."""
    capabilities = backend.capabilities
    if capabilities.continues is not None:
        for prompt in (TEXT, Prompt(messages=(QUESTION,))):
            continues = capabilities.continues(prompt, Sampling())
            assert isinstance(continues, bool), f"continues() returns {continues!r}, not a bool"
    if capabilities.load_tokenizer is not None:
        tokenizer = capabilities.load_tokenizer()
        absent = missing(tokenizer, Tokenizer)
        assert not absent, f"its tokenizer lacks {', '.join(absent)} of protocols.Tokenizer"


def check_what_was_written_is_continued(backend: Backend) -> None:
    """Text written since the prompt is continued like the prompt itself."""
    whole = greedy(backend, Prompt("The capital of France is"))
    parts = greedy(backend, Prompt("The capital of"), written=" France is")
    assert parts == whole, f"in two parts it is continued with {parts!r}, in one with {whole!r}"


def check_a_chat_is_continued_within_the_assistants_message(backend: Backend) -> None:
    """The continuation is the same if the message began in the chat, was written since, or both."""
    parts = ("The capital", " of France is")
    continuations = {
        greedy(
            backend,
            Prompt(messages=(QUESTION, *([Message("assistant", begun)] if begun else []))),
            written=written,
        )
        for begun, written in (("", "".join(parts)), ("".join(parts), ""), parts)
    }
    assert len(continuations) == 1, (
        f"where the message began changes its continuation: {continuations}"
    )


def check_a_chat_that_ends_with_a_question_is_answered(backend: Backend) -> None:
    """The first question of a chat is answered, and a later one."""
    later = (Message("assistant", "Paris."), Message("user", "And what is the capital of Italy?"))
    for messages in ((QUESTION,), (QUESTION, *later)):
        candidates = _several(backend, Prompt(messages=messages))
        assert any(candidate.text for candidate in candidates), (
            f"no answer to {messages[-1].content!r}"
        )


def check_a_stop_condition_ends_a_candidate(backend: Backend) -> None:
    """A candidate ends with the token that fulfils the condition."""

    def has_four_words(text: str) -> bool:
        return len(text.split()) > 3

    candidates = _several(backend, max_tokens=40, stop_condition=has_four_words)
    stopped = [candidate for candidate in candidates if not candidate.finished]
    assert stopped, "the model always ends before its fourth word"
    for candidate in stopped:
        assert has_four_words(candidate.text), f"it stopped after {candidate.text!r}"
        before = "".join(candidate.pieces[:-1])
        assert not has_four_words(before), f"it did not stop after {before!r}"
        assert not candidate.truncated, "it reports a limit that it did not reach"


def check_the_token_limit_truncates_a_candidate(backend: Backend) -> None:
    """A truncated candidate says so."""
    candidates = _several(backend, max_tokens=5)
    truncated = [candidate for candidate in candidates if not candidate.finished]
    assert truncated, "the model always ends before its sixth token"
    for candidate in truncated:
        assert 1 <= len(candidate.pieces) <= 5, f"{len(candidate.pieces)} pieces of 5 tokens"
        assert candidate.truncated, "it does not report that it reached its limit"
        assert candidate.failure is None, f"a limit is not a failure: {candidate.failure}"


def check_a_seed_decides(backend: Backend) -> None:
    """The same seed draws the same text, and other seeds draw other texts."""
    draw(backend, ask(0, max_tokens=10))  # a cached prompt may change the last digits
    first, same = (draw(backend, ask(0, max_tokens=10))[0].text for _ in range(2))
    assert first == same, f"one seed drew both {first!r} and {same!r}"
    texts = {candidate.text for candidate in _several(backend, max_tokens=10)}
    assert len(texts) > 1, f"four seeds drew only {texts}"


def check_only_the_likeliest_is_drawn_if_nothing_else_is_left(backend: Backend) -> None:
    """At temperature 0 every seed draws the same text."""
    candidates = draw(backend, *(ask(n, seed=10 + n) for n in range(2)), sampling=GREEDY)
    texts = {candidate.text for candidate in candidates.values()} | {greedy(backend)}
    assert len(texts) == 1, f"at temperature 0 it drew {texts}"


def check_more_candidates_than_it_draws_at_once_all_come_back(backend: Backend) -> None:
    """Each candidate comes back once, under its own number."""
    numbers = range(3, 5 + min(backend.parallel, 16))
    candidates = draw(backend, *(ask(n, seed=n, max_tokens=3) for n in numbers))
    assert sorted(candidates) == list(numbers), f"{list(numbers)} came back as {sorted(candidates)}"


def check_it_charges_for_what_it_reads_and_writes(backend: Backend) -> None:
    """If it declares that it charges, for every token of prompts and candidates; otherwise never.

    A request for several candidates reads their prompt once.
    """
    charged: list[ModelUsage] = []
    requests = [replace(ask(n, seed=n), charge=charged.append) for n in range(3)]
    written = sum(candidate.tokens for candidate in draw(backend, *requests).values())
    if not backend.capabilities.charges:
        assert not charged, f"it does not declare that it charges, and charged {charged}"
        return
    usage = sum(charged, ModelUsage())
    assert 1 <= usage.requests <= 3, f"it charged for {usage.requests} requests"
    assert usage.read_tokens >= usage.requests, f"it charged for {usage.read_tokens} tokens read"
    assert usage.cached_tokens <= usage.read_tokens, "it charged for more cached than read tokens"
    assert usage.written_tokens >= written, (
        f"it charged for {usage.written_tokens} of {written} tokens"
    )


def check_one_of_several_is_cancelled(backend: Backend) -> None:
    """Cancelling one candidate does not affect the others."""
    session = backend.open()
    for number in range(3):
        session.submit(ask(number, seed=number, max_tokens=8 if number else 300))
    session.cancel(0)
    numbers: set[int] = set()
    while not numbers >= {1, 2}:
        numbers |= {candidate.number for candidate in session.wait()}
    session.close()


def check_closing_with_running_candidates_leaves_no_thread(backend: Backend) -> None:
    """A new session is not affected by a session that was closed early."""
    draw(backend, ask(0))
    before = set(threading.enumerate())
    session = backend.open()
    for number in range(6):
        session.submit(ask(number, seed=number, max_tokens=300))
    session.cancel(0)
    session.close()
    session.close()
    remaining = set(threading.enumerate()) - before
    assert not remaining, f"threads are still running: {remaining}"
    assert draw(backend, ask(0))[0].text, "the next session draws nothing"


def check_odd_prompts_are_continued(backend: Backend) -> None:
    """Every odd prompt is continued; only after the empty prompt may a backend fail."""
    for text in ODD_PROMPTS:
        failure = draw(backend, ask(7, Prompt(text)))[7].failure
        assert failure is None or not text, f"it does not continue {text!r}: {failure}"


def check_a_closed_backend_opens_again(backend: Backend) -> None:
    """A backend may be closed twice, and loads its model again when it is opened next."""
    backend.close()
    backend.close()
    assert draw(backend, ask(0))[0].text, "after it was closed, it draws nothing"


def draw(
    backend: Backend, *requests: Request, sampling: Sampling | None = None
) -> dict[int, Candidate]:
    """All candidates by number; fails if one comes back twice.

    Args:
        backend: draws the candidates in a new session.
        requests: submitted at once.
        sampling: replaces that of the requests.
    """
    session = backend.open()
    try:
        for request in requests:
            session.submit(replace(request, sampling=sampling) if sampling else request)
        candidates: dict[int, Candidate] = {}
        while len(candidates) < len(requests):
            for candidate in session.wait():
                assert candidate.number not in candidates, f"{candidate.number} came back twice"
                candidates[candidate.number] = candidate
        return candidates
    finally:
        session.close()
