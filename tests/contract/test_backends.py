"""What every backend keeps to, on one model: by llama.cpp, by transformers, and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.conftest import assert_counted
from tests.forking import in_a_fork
from tests.llama_server import model_file, serving

from hammingmark.assembly.marking import writer
from hammingmark.backends.llamacpp import LlamaCppBackend
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.generation.generate import GenerationConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Message, Prompt, Sampling
from hammingmark.testing import backend_checks, draw
from hammingmark.testing.backend_checks import GREEDY, QUESTION, ask, greedy

pytestmark = pytest.mark.slow

CONTEXT = 512


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


def test_it_is_this_model_that_continues(backend: Backend) -> None:
    assert greedy(backend, Prompt("The capital of France is")).startswith(" Paris")
    chat = Prompt(messages=(QUESTION,))
    assert greedy(backend, chat, written="The capital of France is").startswith(" Paris")
    assert "<|" not in greedy(backend, chat)  # the template's own tokens are no part of the text


def test_a_begun_answer_is_written_to_its_end(
    backend: Backend, encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey
) -> None:
    """Sentence after sentence, in the message in which it was begun."""
    story = Message("user", "Tell me a long story about a lighthouse.")
    begun = Message("assistant", "Once upon a time there was a tall lighthouse.")
    chat = Prompt(messages=(story, begun))
    config = GenerationConfig(max_sentences=2, max_tokens=60, budget=4)
    made = writer(marking_key, backend=backend, encoder=encoder, splitter=splitter, config=config)
    for seed in range(2, 8):
        generation = made.write(chat, seed=seed)
        assert generation.error is None
        assert_counted(generation, marking_key, encoder=encoder, splitter=splitter)
        if len(generation.sentences) == 2:
            return
    pytest.fail("the story always ends after a sentence")


def test_the_model_ends_a_candidate(backend: Backend) -> None:
    chat = Prompt(messages=(QUESTION,))
    one = ask(1, chat, written="The capital of France is Paris.", max_tokens=60)
    candidate = draw(backend, one, sampling=GREEDY)[1]
    assert candidate.finished
    assert not candidate.truncated


@pytest.mark.parametrize(
    "sampling",
    [Sampling(top_k=1), Sampling(top_k=0, min_p=1.0), Sampling(top_k=0, top_p=1e-6)],
    ids=["top_k 1", "min_p 1", "top_p 0"],
)
def test_only_the_likeliest_is_drawn_if_nothing_else_is_left(
    backend: Backend, sampling: Sampling
) -> None:
    expected = greedy(backend)
    found = draw(backend, *(ask(n, seed=10 + n) for n in range(2)), sampling=sampling)
    assert {candidate.text for candidate in found.values()} == {expected}


def test_a_prompt_that_is_too_long_is_one_sentence(backend: Backend) -> None:
    long = ask(0, Prompt("Many words follow here. " * 200))
    found = draw(backend, long, ask(1))
    assert found[1].text  # another text is none the worse for it
    assert found[0].text == ""
    failure = found[0].failure
    assert failure is not None
    assert (failure.kind, failure.origin) == ("context_overflow", "model")
    assert str(CONTEXT) in failure.message
    assert "--context" in failure.message or "larger context" in failure.message
    assert draw(backend, ask(0))[0].text


def test_a_candidate_for_which_the_context_has_no_room_says_so(backend: Backend) -> None:
    prompt = Prompt("Many words follow here. " * 98)
    candidate = draw(backend, ask(0, prompt, max_tokens=100))[0]
    assert candidate.truncated
    assert candidate.failure is not None
    assert candidate.failure.kind == "context_overflow"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_after_a_fork_it_draws_or_says_why_not(backend: Backend) -> None:
    here = greedy(backend)
    there = in_a_fork(lambda: greedy(backend))
    assert there == here or "Load it after the fork" in there
    assert greedy(backend) == here


@pytest.mark.parametrize("check", backend_checks())
def test_every_backend(backend: Backend, check: Callable[[Backend], None]) -> None:
    """The last ones: they end with closing it.

    Reading the model of transformers anew takes long; a tiny one is, in the unit tests.
    """
    if "closing" in check.__name__ and backend.name.endswith(".gguf"):
        pytest.skip("a tiny model is closed and read anew")
    check(backend)
