"""What a model's server reads and writes, as it counts it itself and as texts are charged for it.

The truth is in the metrics of llama.cpp's own server, which include the tokens of streams that were
closed. These laws hold on any machine:

- Where streams end by themselves the counts are the same; those of prompts where anything arrived.
- Where a stream is closed the server never tells what it wrote. It wrote at least what arrived, and
  at most as many tokens as it was asked for. How soon it notices is a matter of speed.
- Where a stream is closed before anything has arrived the server has read at most the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.llama_server import Server, Tokens, serving
from tests.serving import keep_key, serve

from hammingmark.assembly.marking import writer
from hammingmark.backends.metering import UNSEEN_TOKENS
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.generation.generate import GenerationConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import Encoder, Splitter
from hammingmark.records import Message, ModelUsage, Prompt
from hammingmark.testing import draw
from hammingmark.testing.backend_checks import TEXT, ask

pytestmark = pytest.mark.slow

CHAT = Prompt(messages=(Message("user", "Tell me a story about a lighthouse, in many sentences."),))
QUESTION: Any = [{"role": "user", "content": "Tell me a story about a lighthouse."}]
LONGEST = 24  # tokens of a sentence


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


def assert_agrees(
    charged: Sequence[ModelUsage], before: Tokens, after: Tokens, *, most: int, unread: int = 0
) -> None:
    """The laws above.

    Args:
        charged: what the texts were charged.
        before: what the server had counted before.
        after: what it has counted since.
        most: the largest number of tokens of one request.
        unread: the largest number of tokens of a prompt, if streams may be closed before anything
            has arrived.
    """
    usage = sum(charged, ModelUsage())
    written, cut = after.written - before.written, usage.estimated_requests
    assert abs(usage.read_tokens - (after.read - before.read)) <= unread * cut
    assert abs(usage.cached_tokens - (after.cached - before.cached)) <= unread * cut
    assert (
        usage.written_tokens - UNSEEN_TOKENS * cut <= written <= usage.written_tokens + most * cut
    )


@pytest.mark.parametrize("prompt", [TEXT, CHAT], ids=["completions", "chat"])
@pytest.mark.parametrize("count", [1, 3])
def test_what_ends_by_itself_is_counted_exactly(server: Server, prompt: Prompt, count: int) -> None:
    """Also several candidates of one request, whose prompt is read once."""
    with OpenAIBackend(server.url, "any") as backend:
        before, charged = server.tokens(), []
        draw(
            backend,
            *(replace(ask(n, prompt, seed=n), charge=charged.append) for n in range(count)),
        )
    usage = sum(charged, ModelUsage())
    assert (usage.requests, usage.estimated_requests) == (1, 0)
    assert usage.written_tokens == 6 * count
    assert_agrees(charged, before, server.tokens(), most=0)


@pytest.mark.parametrize("prompt", [TEXT, CHAT], ids=["completions", "chat"])
def test_marked_text_is_charged_for_all_that_was_written(
    server: Server, encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey, prompt: Prompt
) -> None:
    """Sentences in stages, whole ones, and the questions whether the server continues answers."""
    config = GenerationConfig(max_tokens=60, max_sentence_tokens=LONGEST)
    with OpenAIBackend(server.url, "any", width=1) as backend:
        text_writer = writer(
            marking_key, backend=backend, encoder=encoder, splitter=splitter, config=config
        )
        before = server.tokens()
        costs = [text_writer.write(prompt, seed=seed).cost for seed in range(2)]
    after = server.tokens()
    usages = [
        ModelUsage(
            cost.requests,
            cost.read_tokens,
            cost.cached_tokens,
            cost.written_tokens,
            cost.estimated_requests,
        )
        for cost in costs
    ]
    assert_agrees(usages, before, after, most=LONGEST)
    for cost in costs:
        assert cost.requests > 1
        assert cost.written_tokens >= cost.drawn_tokens + cost.spare_tokens


def test_the_service_tells_what_its_upstream_counts(tmp_path: Path) -> None:
    """Answers to chats and continuations, whole and streamed."""
    keep_key(tmp_path)
    most = 40
    with serving() as upstream, serve(tmp_path, "--upstream", upstream.url) as made:
        client = openai.OpenAI(base_url=made.url, api_key="unused", max_retries=0, timeout=300)
        before, marks = upstream.tokens(), []
        for stream in (False, True):
            options: Any = {"model": "hammingmark", "max_tokens": most, "seed": 5, "stream": stream}
            for answer in (
                client.chat.completions.create(messages=QUESTION, **options),
                client.completions.create(prompt="It rained all day.", **options),
            ):
                *_, last = answer if stream else [answer]
                marks.append(last.model_extra["watermark"])
        after = upstream.tokens()
    charged = [
        ModelUsage(
            mark["model_requests"],
            mark["read_tokens"],
            mark["cached_tokens"],
            mark["written_tokens"],
            mark["estimated_requests"],
        )
        for mark in marks
    ]
    assert len(charged) == 4
    assert_agrees(charged, before, after, most=most, unread=100)
