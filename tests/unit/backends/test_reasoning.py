"""Models that think before they answer, behind a server: what a candidate and a text have of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.backends.openai_client import Maker, ask
from tests.unit.backends.openai_server import Handler, Server, saying, status
from tests.unit.backends.thinking_server import THOUGHT, Thinker

from hammingmark import testing
from hammingmark.assembly.detection import detector
from hammingmark.assembly.keys import new_key
from hammingmark.assembly.marking import writer
from hammingmark.backends.reasoning import ReasoningCollector
from hammingmark.generation.config import GenerationConfig
from hammingmark.records import Message, Prompt, Reasoning, ReasoningPart, Request
from hammingmark.testing import FakeEncoder
from hammingmark.testing.fakes import FakeBackend

CHAT = Prompt(messages=(Message("user", "What happened at the harbour?"),))


def collected(*pieces: str) -> tuple[str, Reasoning | None, list[ReasoningPart]]:
    """The answer, the reasoning and its parts of a text that comes in these pieces."""
    parts: list[ReasoningPart] = []
    collector = ReasoningCollector(count_tokens=lambda text: 1, receive=parts.append)
    answer = "".join([collector.take(piece) for piece in pieces] + [collector.flush()])
    return answer, collector.reasoning, parts


WHOLE = "\n<think>\nIt <b>rains</b>, I < think.\n</think>\n\nIt rains. Use <think> so."


@pytest.mark.parametrize(
    "pieces",
    [
        [WHOLE],
        list(WHOLE),
        [WHOLE[start : start + 5] for start in range(0, len(WHOLE), 5)],
        [WHOLE[: WHOLE.index("</think>") + 3], WHOLE[WHOLE.index("</think>") + 3 :]],
        [WHOLE.partition("It rains.")[0], WHOLE[WHOLE.index("It rains.") :]],
    ],
)
def test_tags_are_found_wherever_the_pieces_are_cut(pieces: Sequence[str]) -> None:
    answer, reasoning, parts = collected(*pieces)
    assert answer == "It rains. Use <think> so."
    assert reasoning is not None
    assert reasoning.text == WHOLE.removesuffix(answer)
    assert reasoning.is_inline
    assert "".join(part.text for part in parts) == reasoning.text
    assert [part.is_first for part in parts] == [True] + [False] * (len(parts) - 1)


@pytest.mark.parametrize(
    "text",
    ["", "It rains.", "  It <think> rains.", "<thing> it rains.", "<th", "\n ", "<p>Rain</p>"],
)
def test_other_text_is_the_answer(text: str) -> None:
    for pieces in ([text], list(text)):
        assert collected(*pieces) == (text, None, [])


def test_reasoning_that_does_not_end_is_no_answer() -> None:
    answer, reasoning, _ = collected("<think>\n", "So it", " may be")
    assert (answer, reasoning and reasoning.text) == ("", "<think>\nSo it may be")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_candidate_has_its_reasoning_apart(
    server: Server, make: Maker, field: str, stream: bool
) -> None:
    def step(handler: Handler, body: dict[str, Any]) -> None:
        # Some versions send both fields.
        message = {"reasoning": "So it is.", field: "So it is.", "content": " It is."}
        choice = {"index": 0, "finish_reason": "stop"}
        if stream:
            saying({"choices": [{**choice, "delta": message}]}, "[DONE]")(handler, body)
        else:
            handler.plain({"choices": [{**choice, "message": message}]})

    server.always = step
    request = ask(1, prompt=CHAT)
    (candidate,) = testing.draw(make(), thinking(request, 500)).values()
    assert candidate.reasoning == Reasoning("So it is.", field, 3)
    assert candidate.text == " It is."
    assert candidate.tokens == 3 + len(candidate.pieces)
    assert server.bodies[-1]["max_tokens"] == 500
    # In the middle of an answer there is none.
    (later,) = testing.draw(make(), ask(2, prompt=CHAT, written="Well.")).values()
    assert (later.reasoning, later.text) == (None, " It is.")


def thinking(request: Request, tokens: int) -> Request:
    """The same request at the beginning of an answer."""
    return replace(request, reasoning_tokens=tokens)


def test_a_context_with_room_for_a_sentence_only_is_used(server: Server, make: Maker) -> None:
    def step(handler: Handler, body: dict[str, Any]) -> None:
        if body["max_tokens"] > 50:
            status(400, "This model's maximum context length is 60 tokens.")(handler, body)
        else:
            Thinker(thought="", answer="It was late.")(handler, body)

    server.always = step
    (candidate,) = testing.draw(make(), thinking(ask(1, prompt=CHAT), 500)).values()
    assert (candidate.text, candidate.failure) == ("It was late.", None)


@pytest.mark.parametrize("place", ["reasoning_content", ""])
@pytest.mark.parametrize("answer_start", ["free", "judged"])
def test_the_library_writes_the_answer_after_it(
    server: Server, make: Maker, place: str, answer_start: Any
) -> None:
    thinker = server.always = Thinker(place, frozenset({"field" if place else "tags"}))
    encoder = FakeEncoder()
    config = GenerationConfig(max_tokens=120, answer_start=answer_start)
    text_writer = writer(new_key(encoder), backend=make(), encoder=encoder, config=config)
    generation = text_writer.write(CHAT, seed=1)
    assert thinker.thoughts == 1
    assert generation.reasoning is not None
    assert generation.reasoning.field == place
    assert THOUGHT in generation.reasoning.text
    assert generation.failure is None
    assert "harbour" not in generation.text
    assert generation.sentences
    cost = generation.cost
    assert cost.reasoning_tokens == generation.reasoning.tokens
    assert cost.tokens == cost.reasoning_tokens + sum(step.tokens for step in generation.steps)
    assert cost.tokens <= 120
    assert cost.written_tokens >= cost.drawn_tokens >= cost.tokens
    # Every further candidate saw it, in the place from which it came.
    for body in thinker.bodies[1:]:
        last = body["messages"][-1]
        assert (last[place] == THOUGHT) if place else last["content"].startswith("<think>")


def test_unmarked_text_has_its_reasoning_apart_as_well(server: Server, make: Maker) -> None:
    server.always = Thinker()
    text_writer = writer(None, backend=make(), config=GenerationConfig(max_tokens=80))
    generation = text_writer.write(CHAT, seed=1)
    assert generation.reasoning is not None
    assert generation.reasoning.text == THOUGHT
    assert generation.text
    assert generation.stopped == "tokens"


def test_detection_skips_reasoning_before_a_text() -> None:
    encoder = FakeEncoder()
    key = new_key(encoder)
    text = writer(key, backend=FakeBackend(), encoder=encoder).write("It was late.", seed=1).text
    judge = detector(key, encoder=encoder)
    plain = judge.judge(text)
    assert judge.judge(f"<think>\n{THOUGHT}\n</think>\n\n{text}") == plain
    # Tags that do not enclose the beginning are text like any other.
    for other in (f"<think>\n{THOUGHT} {text}", f"{THOUGHT} <think>So.</think> {text}"):
        assert len(judge.judge(other).pieces) > len(plain.pieces)
    assert judge.judge(f"<think>{text}</think>").watermarked is None
