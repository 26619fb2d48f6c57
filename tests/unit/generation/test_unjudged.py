"""Texts without candidates that are drawn a sentence at a time, so that they can be streamed."""

from __future__ import annotations

from random import Random

import pytest

from hammingmark.generation.generate import GenerationConfig, Writer
from hammingmark.protocols import BackendCapabilities
from hammingmark.records import Generation, Message, Prompt, Request
from hammingmark.testing import FakeBackend
from hammingmark.testing.fakes import paragraph
from hammingmark.text.sentencex import SentencexSplitter

PROMPT = Prompt("It was late. The harbour slept.")
CHAT = Prompt(messages=(Message("user", "What happened?"),))
WHOLE = (
    f'{paragraph(Random(5))}\n\nA list -- "of (all) things":\n  * one/two\n\n  * three… Five!six.'
)


def write(prompt: Prompt = PROMPT, **options: object) -> tuple[Generation, list[Request]]:
    capabilities = BackendCapabilities(continues=lambda prompt, sampling: not prompt.messages)
    backend = FakeBackend(
        sentences=lambda request: WHOLE[len(request.written) :], capabilities=capabilities
    )
    config = GenerationConfig(**{"max_tokens": 1000, "in_parts": True, **options})  # type: ignore[arg-type]
    generation = Writer(backend, SentencexSplitter(), None, None, config).write(prompt, seed=1)
    return generation, backend.drawn


def test_the_text_is_what_the_model_wrote_and_comes_piece_by_piece() -> None:
    generation, drawn = write()
    assert generation.text == WHOLE == "".join(step.text for step in generation.steps)
    assert generation.stopped == "end"
    assert generation.sentences == tuple(SentencexSplitter().split(WHOLE).carrying)
    assert len(drawn) >= len(generation.steps) > 3
    assert len({request.seed for request in drawn}) == len(drawn)
    for step in generation.steps[:-1]:
        assert step.text.count(".") <= 2, step.text


def test_otherwise_it_is_drawn_in_one_go() -> None:
    generation, drawn = write(in_parts=False)
    assert (generation.text, len(drawn)) == (WHOLE, 1)


def test_a_model_that_would_begin_again_draws_in_one_go() -> None:
    generation, drawn = write(CHAT)
    assert (generation.text, len(drawn)) == (WHOLE, 1)


@pytest.mark.parametrize("limit", [1, 7, 20, 30])
def test_no_more_tokens_than_asked_for(limit: int) -> None:
    generation, drawn = write(max_tokens=limit)
    assert generation.stopped == "tokens"
    assert generation.cost.tokens == limit
    assert WHOLE.startswith(generation.text)
    assert drawn[0].max_tokens == limit


def test_the_text_ends_before_a_string_to_stop_at_also_where_parts_meet() -> None:
    words = WHOLE.split()
    place = next(i for i, word in enumerate(words) if word.endswith("."))
    stop = f"{words[place]} {words[place + 1]}"
    generation, _ = write(stop=(stop,))
    assert generation.text == WHOLE[: WHOLE.index(stop)].rstrip()


def test_so_many_sentences_and_no_more() -> None:
    generation, _ = write(max_sentences=2)
    assert len(generation.sentences) == 2
    assert WHOLE.startswith(generation.text)
