"""What every backend keeps to, on one model: by llama.cpp, by transformers, and over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.candidates import draw
from tests.conftest import assert_counted
from tests.forking import in_a_fork
from tests.llama_server import model_file, serving

from hammingmark.assembly.marking import writer
from hammingmark.backends.llamacpp import LlamaCppBackend
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.keys import WatermarkKey
from hammingmark.pipeline.generate import GenerationConfig
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Message, Prompt, Request, Sampling

pytestmark = pytest.mark.slow

CONTEXT = 512
GREEDY = Sampling(temperature=0.0)
TEXT = Prompt("The lighthouse had been dark for a year. Nobody in the village knew why.")
QUESTION = Message("user", "What is the capital of France?")


def answer(content: str) -> Message:
    return Message("assistant", content)


@pytest.fixture(scope="module", params=["llamacpp", "transformers", "openai"])
def backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "llamacpp":
        with LlamaCppBackend(model_file(), name="smollm2", context=CONTEXT) as made:
            yield made
    elif request.param == "transformers":
        pytest.importorskip("torch")
        pytest.importorskip("gguf")
        from hammingmark.backends.transformers import TransformersBackend

        with TransformersBackend(model_file(), device="cpu", context=CONTEXT) as made:
            yield made
    else:
        # What llama.cpp keeps of earlier prompts changes the last digits of what it computes.
        more = {"extra": {"cache_prompt": False}, "retries": 0}
        with serving(context=CONTEXT) as server, OpenAIBackend(server.url, "any", **more) as made:
            yield made


def ask(
    number: int,
    prompt: Prompt = TEXT,
    *,
    written: str = "",
    seed: int = 1,
    max_tokens: int = 6,
    enough: Callable[[str], bool] = lambda text: False,
) -> Request:
    return Request(number, prompt, written, seed, max_tokens, enough)


def greedy(backend: Backend, prompt: Prompt, **changes: Any) -> str:
    return draw(backend, ask(0, prompt, **changes), sampling=GREEDY)[0].text


def test_it_is_a_backend(backend: Backend) -> None:
    assert isinstance(backend, Backend)
    assert 1 <= backend.width <= backend.parallel


def test_a_text_is_continued(backend: Backend) -> None:
    assert greedy(backend, Prompt("The capital of France is")).startswith(" Paris")
    assert greedy(backend, Prompt("The capital of"), written=" France is").startswith(" Paris")


def test_a_chat_is_continued_within_the_assistants_message(backend: Backend) -> None:
    """Whether the message began in the chat, in what was written since, or in both."""
    written = greedy(backend, Prompt(messages=(QUESTION,)), written="The capital of France is")
    assert written.startswith(" Paris")
    begun = Prompt(messages=(QUESTION, answer("The capital of France is")))
    assert greedy(backend, begun) == written
    both = Prompt(messages=(QUESTION, answer("The capital")))
    assert greedy(backend, both, written=" of France is") == written


def test_a_chat_that_ends_with_a_question_is_answered(backend: Backend) -> None:
    again = (QUESTION, answer("Paris."), Message("user", "And what is the capital of Italy?"))
    for messages in ((QUESTION,), again):
        text = greedy(backend, Prompt(messages=messages))
        assert text
        assert "<|" not in text  # the template's own tokens are no part of the text


def test_a_begun_answer_is_written_to_its_end(
    backend: Backend, encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey
) -> None:
    """Sentence after sentence, in the message in which it was begun."""
    story = Message("user", "Tell me a long story about a lighthouse.")
    chat = Prompt(messages=(story, answer("Once upon a time there was a tall lighthouse.")))
    config = GenerationConfig(max_sentences=2, max_tokens=100)
    made = writer(marking_key, backend=backend, encoder=encoder, splitter=splitter, config=config)
    for seed in range(2, 8):
        generation = made.write(chat, seed=seed)
        assert generation.error is None
        assert_counted(generation, marking_key, encoder=encoder, splitter=splitter)
        if len(generation.sentences) == 2:
            return
    pytest.fail("the story always ends after a sentence")


def test_enough_ends_a_candidate(backend: Backend) -> None:
    one = ask(1, max_tokens=40, enough=lambda text: len(text.split()) > 3)
    candidate = draw(backend, one)[1]
    assert len(candidate.text.split()) > 3
    assert len("".join(candidate.pieces[:-1]).split()) <= 3
    assert not candidate.finished
    assert not candidate.cut


def test_the_limit_cuts_a_candidate(backend: Backend) -> None:
    candidate = draw(backend, ask(1, max_tokens=5))[1]
    assert candidate.cut
    assert not candidate.finished
    assert candidate.trouble is None
    assert 1 <= len(candidate.pieces) <= 5


def test_the_model_ends_a_candidate(backend: Backend) -> None:
    chat = Prompt(messages=(QUESTION,))
    one = ask(1, chat, written="The capital of France is Paris.", max_tokens=60)
    candidate = draw(backend, one, sampling=GREEDY)[1]
    assert candidate.finished
    assert not candidate.cut


def test_a_seed_decides(backend: Backend) -> None:
    requests = [ask(0, max_tokens=10), ask(0, max_tokens=10), ask(0, max_tokens=10, seed=2)]
    draw(backend, requests[0])  # what is kept of a prompt may change the last digits
    first, same, other = (draw(backend, request)[0].text for request in requests)
    assert first == same != other


@pytest.mark.parametrize(
    "sampling",
    [GREEDY, Sampling(top_k=1), Sampling(top_k=0, min_p=1.0), Sampling(top_k=0, top_p=1e-6)],
    ids=["temperature 0", "top_k 1", "min_p 1", "top_p 0"],
)
def test_only_the_likeliest_is_drawn_if_nothing_else_is_left(
    backend: Backend, sampling: Sampling
) -> None:
    expected = greedy(backend, TEXT)
    found = draw(backend, *(ask(n, seed=10 + n) for n in range(2)), sampling=sampling)
    assert {candidate.text for candidate in found.values()} == {expected}


def test_one_of_several_is_cancelled(backend: Backend) -> None:
    session = backend.open()
    for number in range(3):
        session.submit(ask(number, seed=number, max_tokens=8 if number else 300))
    session.cancel(0)
    found: set[int] = set()
    while not found >= {1, 2}:
        found |= {candidate.number for candidate in session.wait()}
    session.close()


def test_closing_with_candidates_under_way_leaves_no_thread(backend: Backend) -> None:
    draw(backend, ask(0))
    before = set(threading.enumerate())
    session = backend.open()
    for number in range(6):
        session.submit(ask(number, seed=number, max_tokens=300))
    session.cancel(0)
    session.close()
    session.close()
    assert set(threading.enumerate()) <= before
    assert draw(backend, ask(0))[0].text  # and the next session draws as if nothing had been


def test_a_prompt_that_is_too_long_is_one_sentence(backend: Backend) -> None:
    long = ask(0, Prompt("Many words follow here. " * 200))
    found = draw(backend, long, ask(1))
    assert found[1].text  # another text is none the worse for it
    assert found[0].text == ""
    message = found[0].trouble
    assert message is not None
    assert "context" in message
    assert str(CONTEXT) in message
    assert "Shorten the prompt" in message
    assert "--context" in message or "larger context" in message
    assert draw(backend, ask(0))[0].text


def test_a_candidate_for_which_the_context_has_no_room_says_so(backend: Backend) -> None:
    prompt = Prompt("Many words follow here. " * 98)
    candidate = draw(backend, ask(0, prompt, max_tokens=100))[0]
    assert candidate.cut
    assert candidate.trouble is not None
    assert "context" in candidate.trouble


@pytest.mark.parametrize("text", ["", "🙂🙂🙂", "\x00\x01 \x07 odd bytes.", "日本語の文章です。"])
def test_odd_prompts_are_continued(backend: Backend, text: str) -> None:
    assert draw(backend, ask(0, Prompt(text)))[0].number == 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_after_a_fork_it_draws_or_says_why_not(backend: Backend) -> None:
    here = greedy(backend, TEXT)
    there = in_a_fork(lambda: greedy(backend, TEXT))
    assert there == here or "Load it after the fork" in there
    assert greedy(backend, TEXT) == here


def test_closing_twice_and_beginning_anew(backend: Backend) -> None:
    """The last one: what is drawn from next has to be loaded again."""
    backend.close()
    backend.close()
    if isinstance(backend, (LlamaCppBackend, OpenAIBackend)):
        assert draw(backend, ask(0))[0].text
