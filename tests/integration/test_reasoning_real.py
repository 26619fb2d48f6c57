"""A real model that thinks before it answers, behind llama.cpp's own server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import pytest
from tests import llama_server

from hammingmark.assembly.keys import new_key
from hammingmark.assembly.marking import writer
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.generation.config import CHAT_SAMPLING, GenerationConfig
from hammingmark.records import Message, Prompt, Reasoning
from hammingmark.testing import FakeEncoder

pytestmark = pytest.mark.slow

CHAT = Prompt(messages=(Message("user", "Why does it rain?"),))
END_OF_TURN = 2  # of SmolLM2, which would end its answer before it has begun
NO_END = replace(CHAT_SAMPLING, further=(("logit_bias", json.dumps({END_OF_TURN: -100})),))


@pytest.fixture(params=["apart", "inline"])
def place(request: pytest.FixtureRequest) -> Literal["apart", "inline"]:
    found: Literal["apart", "inline"] = request.param
    return found


@pytest.fixture
def backend(place: Literal["apart", "inline"]) -> Iterator[OpenAIBackend]:
    with llama_server.serving(thinks=place) as server, OpenAIBackend(server.url, "x") as made:
        yield made


def test_it_thinks_once_and_the_answer_is_marked(
    backend: OpenAIBackend, place: Literal["apart", "inline"]
) -> None:
    encoder = FakeEncoder()
    config = GenerationConfig(max_tokens=70).with_sampling(NO_END)
    text_writer = writer(new_key(encoder), backend=backend, encoder=encoder, config=config)
    generation = text_writer.write(CHAT, seed=1)
    assert generation.failure is None
    reasoning = generation.reasoning
    assert reasoning is not None
    assert reasoning.field == ("reasoning_content" if place == "apart" else "")
    assert reasoning.text.startswith("<think>") is (place == "inline")
    assert 0 < reasoning.tokens <= llama_server.THINKING_TOKENS + 8  # with the tags
    assert not reasoning.text.endswith(generation.text)
    assert generation.cost.constrained > 0
    assert generation.cost.tokens <= 70
    assert generation.text
    assert "</think>" not in generation.text.split("<think>")[0]


def test_a_template_without_reasoning_sees_it_between_tags() -> None:
    """SmolLM2's own template drops the field, and passes the text on as it is."""
    with llama_server.serving() as server, OpenAIBackend(server.url, "x") as backend:
        loop = backend.open()._loop
        for field in ("reasoning_content", "reasoning", ""):
            way = loop.run(backend._continuation.way("x", Reasoning("So it is.", field)))
            assert way is not None
            assert way.is_inline is bool(field)
            assert not way.is_reasoning
