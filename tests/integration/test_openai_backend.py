"""Marked text through llama.cpp's own HTTP server, which runs in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import assert_counted
from tests.llama_server import Server, serving

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.marking import writer
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.generation.generate import GenerationConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import Encoder, Splitter
from hammingmark.records import Message, Prompt
from hammingmark.testing import draw
from hammingmark.testing.backend_checks import TEXT, ask

pytestmark = pytest.mark.slow

CHAT = Prompt(messages=(Message("user", "Tell me a story about a lighthouse, in many sentences."),))
FEW = GenerationConfig(max_tokens=80)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.mark.parametrize("prompt", [TEXT, CHAT], ids=["completions", "chat"])
def test_what_is_accepted_is_counted(
    server: Server, encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey, prompt: Prompt
) -> None:
    """Several candidates of a sentence come in one request, and the model need not be named."""
    backend = load_backend(f"openai:@{server.url}")
    assert isinstance(backend, OpenAIBackend)
    made = writer(marking_key, backend=backend, encoder=encoder, splitter=splitter, config=FEW)
    generation = made.write(prompt, seed=3)
    assert generation.error is None
    assert 20 <= generation.cost.tokens <= 80
    assert any(assert_counted(generation, marking_key, encoder=encoder, splitter=splitter))
    assert backend.refused == frozenset()
    backend.close()


def test_the_same_seed_gives_the_same_text(
    server: Server, encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey
) -> None:
    # llama.cpp's cache of earlier prompts changes the last digits of its results.
    backend = OpenAIBackend(server.url, "any", width=1, extra={"cache_prompt": False})
    two = GenerationConfig(max_tokens=30, max_sentences=2)
    made = writer(marking_key, backend=backend, encoder=encoder, splitter=splitter, config=two)
    generations = [made.write(TEXT, seed=seed) for seed in (5, 5, 6)]
    assert generations[0].text == generations[1].text
    assert generations[0].text != generations[2].text


def test_candidates_of_one_request_differ(server: Server) -> None:
    backend = OpenAIBackend(server.url, "any")
    found = draw(backend, *(ask(number, seed=100 + number, max_tokens=8) for number in range(4)))
    for candidate in found.values():
        assert candidate.truncated
        assert len(candidate.pieces) == 8
    assert len({candidate.text for candidate in found.values()}) == 4
    assert "n" not in backend.refused


def test_a_server_that_dies_leaves_what_was_accepted(
    encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey
) -> None:
    with serving() as server:
        backend = OpenAIBackend(server.url, "any", retries=1, backoff=0.05)
        made = writer(marking_key, backend=backend, encoder=encoder, splitter=splitter)
        run = made.stream(TEXT, seed=3)
        steps = []
        for step in run:
            steps.append(step)
            if len(steps) == 2:
                server.process.kill()
                server.process.wait()
    (generation,) = run.generations()
    assert len(steps) >= 2
    assert generation.stopped == "error"
    assert generation.failure is not None
    assert generation.failure.kind == "unavailable"
    assert generation.text == "".join(step.text for step in steps).strip()
    assert tuple(splitter.split(generation.text).carrying) == generation.sentences
