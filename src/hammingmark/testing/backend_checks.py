"""What every backend keeps to, whatever its model says, as functions that fail with a sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hammingmark.protocols import Backend, BackendCapabilities, Session, Tokenizer
from hammingmark.records import Candidate, Message, Prompt, Request, Sampling
from hammingmark.testing.members import missing

TEXT = Prompt("The lighthouse had been dark for a year. Nobody in the village knew why.")
QUESTION = Message("user", "What is the capital of France?")
GREEDY = Sampling(temperature=0.0)
ODD_PROMPTS = ["", "🙂🙂🙂", "\x00\x01 \x07 odd bytes.", "日本語の文章です。"]


def backend_checks() -> list[Callable[[Backend], None]]:
    """The checks, each named after what it demands of a backend; the last one closes it.

    >>> from hammingmark.testing import FakeBackend, backend_checks
    >>> for check in backend_checks():
    ...     check(FakeBackend())
    """
    return [each for name, each in globals().items() if name.startswith("check_")]


def ask(
    number: int,
    prompt: Prompt = TEXT,
    *,
    written: str = "",
    seed: int = 1,
    max_tokens: int = 6,
    enough: Callable[[str], bool] = lambda text: False,
) -> Request:
    """A request with what most checks leave as it is."""
    return Request(number, prompt, written, seed, max_tokens, enough)


def greedy(backend: Backend, prompt: Prompt = TEXT, *, written: str = "") -> str:
    """The likeliest few tokens after a prompt and what was written since."""
    return draw(backend, ask(0, prompt, written=written), sampling=GREEDY)[0].text


def _several(backend: Backend, prompt: Prompt = TEXT, **changes: Any) -> list[Candidate]:
    """Candidates of four seeds, drawn at once."""
    requests = [ask(seed, prompt, seed=seed, **changes) for seed in range(4)]
    return list(draw(backend, *requests).values())


def check_it_is_a_backend(backend: Backend) -> None:
    """It has every property of the protocol."""
    absent = missing(backend, Backend)
    assert not absent, f"it lacks {', '.join(absent)} of protocols.Backend"
    assert isinstance(backend.capabilities, BackendCapabilities), (
        "its capabilities are no protocols.BackendCapabilities"
    )
    session = backend.open()
    absent = missing(session, Session)
    session.close()
    assert not absent, f"its session lacks {', '.join(absent)} of protocols.Session"
    assert backend.name, "it has no name"
    widths = f"width {backend.width}, parallel {backend.parallel}"
    assert 1 <= backend.width <= backend.parallel, f"{widths}: not 1 <= width <= parallel"


def check_it_can_do_what_it_declares(backend: Backend) -> None:
    """It says of each prompt whether it continues half a sentence, and gives its tokenizer."""
    capabilities = backend.capabilities
    if capabilities.continues is not None:
        for prompt in (TEXT, Prompt(messages=(QUESTION,))):
            told = capabilities.continues(prompt)
            assert isinstance(told, bool), f"whether it continues half a sentence is {told!r}"
    if capabilities.load_tokenizer is not None:
        tokenizer = capabilities.load_tokenizer()
        absent = missing(tokenizer, Tokenizer)
        assert not absent, f"its tokenizer lacks {', '.join(absent)} of protocols.Tokenizer"


def check_what_was_written_is_continued(backend: Backend) -> None:
    """As if it had stood in the prompt."""
    whole = greedy(backend, Prompt("The capital of France is"))
    parts = greedy(backend, Prompt("The capital of"), written=" France is")
    assert parts == whole, f"in two parts it is continued by {parts!r}, else by {whole!r}"


def check_a_chat_is_continued_within_the_assistants_message(backend: Backend) -> None:
    """Whether the message began in the chat, in what was written since, or in both."""
    words = ("The capital", " of France is")
    found = {
        greedy(
            backend,
            Prompt(messages=(QUESTION, *([Message("assistant", begun)] if begun else []))),
            written=written,
        )
        for begun, written in (("", "".join(words)), ("".join(words), ""), words)
    }
    assert len(found) == 1, f"where the message began changes its continuation: {found}"


def check_a_chat_that_ends_with_a_question_is_answered(backend: Backend) -> None:
    """At its beginning and later."""
    more = (Message("assistant", "Paris."), Message("user", "And what is the capital of Italy?"))
    for messages in ((QUESTION,), (QUESTION, *more)):
        found = _several(backend, Prompt(messages=messages))
        assert any(each.text for each in found), f"no answer to {messages[-1].content!r}"


def check_enough_ends_a_candidate(backend: Backend) -> None:
    """With the token that makes it enough."""

    def enough(text: str) -> bool:
        return len(text.split()) > 3

    found = [each for each in _several(backend, max_tokens=40, enough=enough) if not each.finished]
    assert found, "the model always ends before its fourth word"
    for candidate in found:
        assert enough(candidate.text), f"{candidate.text!r} was not enough"
        before = "".join(candidate.pieces[:-1])
        assert not enough(before), f"{before!r} was enough, and it went on"
        assert not candidate.truncated, "it says that it reached its limit"


def check_the_limit_cuts_a_candidate(backend: Backend) -> None:
    """And it says so."""
    found = [each for each in _several(backend, max_tokens=5) if not each.finished]
    assert found, "the model always ends before its sixth token"
    for candidate in found:
        assert 1 <= len(candidate.pieces) <= 5, f"{len(candidate.pieces)} pieces of 5 tokens"
        assert candidate.truncated, "it does not say that it reached its limit"
        assert candidate.failure is None, f"a limit is no failure: {candidate.failure}"


def check_a_seed_decides(backend: Backend) -> None:
    """The same seed draws the same, and others draw something else."""
    draw(backend, ask(0, max_tokens=10))  # what is kept of a prompt may change the last digits
    first, same = (draw(backend, ask(0, max_tokens=10))[0].text for _ in range(2))
    assert first == same, f"one seed drew {first!r} and {same!r}"
    texts = {each.text for each in _several(backend, max_tokens=10)}
    assert len(texts) > 1, f"several seeds drew {texts}"


def check_only_the_likeliest_is_drawn_if_nothing_else_is_left(backend: Backend) -> None:
    """At temperature 0 every seed draws the same."""
    found = draw(backend, *(ask(n, seed=10 + n) for n in range(2)), sampling=GREEDY)
    texts = {candidate.text for candidate in found.values()} | {greedy(backend)}
    assert len(texts) == 1, f"at temperature 0 it drew {texts}"


def check_more_candidates_than_it_draws_at_once_all_come_back(backend: Backend) -> None:
    """Each once, under its own number."""
    numbers = range(3, 5 + min(backend.parallel, 16))
    found = draw(backend, *(ask(n, seed=n, max_tokens=3) for n in numbers))
    assert sorted(found) == list(numbers), f"{list(numbers)} came back as {sorted(found)}"


def check_one_of_several_is_cancelled(backend: Backend) -> None:
    """And the others come back."""
    session = backend.open()
    for number in range(3):
        session.submit(ask(number, seed=number, max_tokens=8 if number else 300))
    session.cancel(0)
    found: set[int] = set()
    while not found >= {1, 2}:
        found |= {candidate.number for candidate in session.wait()}
    session.close()


def check_closing_with_candidates_under_way_leaves_no_thread(backend: Backend) -> None:
    """And the next session draws as if nothing had been."""
    draw(backend, ask(0))
    before = set(threading.enumerate())
    session = backend.open()
    for number in range(6):
        session.submit(ask(number, seed=number, max_tokens=300))
    session.cancel(0)
    session.close()
    session.close()
    left = set(threading.enumerate()) - before
    assert not left, f"threads are left: {left}"
    assert draw(backend, ask(0))[0].text, "the next session draws nothing"


def check_odd_prompts_are_continued(backend: Backend) -> None:
    """Only after the empty one, where a model has nothing to go by, may it fail."""
    for text in ODD_PROMPTS:
        failure = draw(backend, ask(7, Prompt(text)))[7].failure
        assert failure is None or not text, f"after {text!r} it cannot go on: {failure}"


def check_closing_twice_and_beginning_anew(backend: Backend) -> None:
    """What is drawn from next has to be loaded again."""
    backend.close()
    backend.close()
    assert draw(backend, ask(0))[0].text, "after it was closed it draws nothing"


def draw(
    backend: Backend, *requests: Request, sampling: Sampling | None = None
) -> dict[int, Candidate]:
    """All the candidates, by their numbers; fails if one comes twice.

    Args:
        backend: draws them, in a session of their own.
        requests: asked for at once.
        sampling: instead of the requests' own.
    """
    session = backend.open()
    try:
        for request in requests:
            session.submit(replace(request, sampling=sampling) if sampling else request)
        found: dict[int, Candidate] = {}
        while len(found) < len(requests):
            for candidate in session.wait():
                assert candidate.number not in found, f"{candidate.number} came back twice"
                found[candidate.number] = candidate
        return found
    finally:
        session.close()
