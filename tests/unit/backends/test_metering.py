"""What requests to a model's server cost, as it is charged to texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.backends.openai_client import Maker, ask, draw
from tests.unit.backends.openai_server import (
    PROMPT_TOKENS,
    Handler,
    Server,
    break_off,
    honest,
    refusing,
    saying,
    status,
    vanish,
)

from hammingmark.backends.metering import UNSEEN_TOKENS
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.records import Message, ModelUsage, Prompt, Request

CHAT = Prompt(messages=(Message("user", "Is anybody at home?"),))
READ = len("Once upon a time.") // 4  # estimated
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 3},
}


def charged(backend: OpenAIBackend, *requests: Request) -> list[ModelUsage]:
    """What each request was charged once the session is closed."""
    usages = [ModelUsage() for _ in requests]

    def charge(index: int) -> Callable[[ModelUsage], None]:
        def add(usage: ModelUsage) -> None:
            usages[index] += usage

        return add

    draw(backend, *(replace(each, charge=charge(index)) for index, each in enumerate(requests)))
    return usages


def cut(number: int, **options: Any) -> Request:
    """A request that is ended after its first token."""
    return ask(number, stop_condition=lambda text: True, **options)


def piece(text: str, reason: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "text": text, "finish_reason": reason}], **more}


def total(*events: Any) -> tuple[Any, ...]:
    """A stream that ends with the usage of the request."""
    return (*events, {"choices": [], "usage": USAGE}, "[DONE]")


TIMINGS = {"prompt_n": 4, "cache_n": 3, "predicted_n": 5}


@pytest.mark.parametrize(
    "events",
    [
        total(piece(" One word."), piece("", "stop")),
        total(piece(" One word.", "stop")),
        (piece(" One word."), piece("", "stop", usage=USAGE), "[DONE]"),
        (piece(" One word."), piece("", "stop", timings=TIMINGS), "[DONE]"),
        (piece(" One word."), piece("", "stop"), {"choices": [], "timings": TIMINGS}, "[DONE]"),
        total(piece(" One", usage={"completion_tokens": 2}), piece("", "stop")),
    ],
    ids=["at the end", "after text", "with the end", "timings", "timings after", "all along"],
)
def test_what_a_server_reports_is_believed(
    server: Server, make: Maker, events: tuple[Any, ...]
) -> None:
    """Also after the candidate is complete: the report of OpenAI's API follows its end."""
    server.always = saying(*events)
    assert charged(make(), ask(1)) == [ModelUsage(1, 7, 3, 5)]


def test_servers_are_asked_to_report_tokens(server: Server, make: Maker) -> None:
    (usage,) = charged(make(), ask(1))
    assert usage == ModelUsage(1, PROMPT_TOKENS, 0, 5)
    (body,) = server.bodies
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_a_server_need_not_know_all_ways_to_report(server: Server, make: Maker) -> None:
    def strict(handler: Handler, body: dict[str, Any]) -> None:
        known = {"include_usage"}
        if body.get("stream_options", {}).keys() - known:
            message = "Unknown parameter: 'stream_options.continuous_usage_stats'."
            status(400, message)(handler, body)
        else:
            refusing("timings_per_token")(handler, body)

    server.always = strict
    backend = make()
    (usage,) = charged(backend, ask(1))
    assert usage == ModelUsage(3, PROMPT_TOKENS, 0, 5)
    assert server.bodies[-1]["stream_options"] == {"include_usage": True}
    assert backend.refused == {"continuous_usage_stats", "timings_per_token"}
    assert charged(backend, ask(1)) == [ModelUsage(1, PROMPT_TOKENS, 0, 5)]


def test_what_is_cut_off_is_estimated(server: Server, make: Maker) -> None:
    """The server writes on until it notices; it never tells how much."""
    server.pause = 0.01
    (usage,) = charged(make(), cut(1))
    assert usage == ModelUsage(1, READ, 0, 1 + UNSEEN_TOKENS, 1)


def test_no_more_is_estimated_than_was_asked_for(server: Server, make: Maker) -> None:
    server.pause = 0.01
    (usage,) = charged(make(), cut(1, max_tokens=2))
    assert usage == ModelUsage(1, READ, 0, 2, 1)


def test_the_latest_report_counts_where_a_stream_is_cut_off(server: Server, make: Maker) -> None:
    """Seven tokens of a prompt, and two of which only one has a text."""
    report = {"prompt_tokens": 7, "completion_tokens": 2}

    def step(handler: Handler, body: dict[str, Any]) -> None:
        saying(piece(" Now.", usage=report))(handler, body)
        handler.await_leaving()

    server.always = step
    assert charged(make(), cut(1)) == [ModelUsage(1, 7, 0, 2 + UNSEEN_TOKENS, 1)]


def test_a_choice_that_goes_on_unneeded_is_counted(server: Server, make: Maker) -> None:
    """Both choices come in one request, whose prompt is read once; the first text pays for it."""
    events = [piece(" Now.", index=0), *(piece(" and", index=0) for _ in range(4))]
    events += [piece("", "stop", index=0), piece(" One.", index=1), piece("", "stop", index=1)]
    reported = {"prompt_tokens": 7, "completion_tokens": 6}
    server.always = saying(*events, {"choices": [], "usage": reported}, "[DONE]")
    assert charged(make(), cut(1), ask(2)) == [
        ModelUsage(1, 7, 0, 5),
        ModelUsage(written_tokens=1),
    ]


def test_reports_of_single_choices_are_added(server: Server, make: Maker) -> None:
    """llama.cpp reports each choice after its end, in a chunk of its own."""
    reports = [{"prompt_tokens": 7, "completion_tokens": count} for count in (3, 4)]
    server.always = saying(
        piece(" One.", index=0),
        piece(" Two.", index=1),
        piece("", "stop", index=1),
        {"choices": [], "usage": reports[1]},
        piece("", "stop", index=0),
        {"choices": [], "usage": reports[0]},
        "[DONE]",
    )
    assert charged(make(), ask(1), ask(2)) == [
        ModelUsage(1, 7, 0, 3),
        ModelUsage(written_tokens=4),
    ]


@pytest.mark.parametrize(
    ("first", "usage"),
    [
        (status(503), ModelUsage(2, PROMPT_TOKENS, 0, 5)),
        (vanish, ModelUsage(2, PROMPT_TOKENS, 0, 5)),
        (status(400, "Unknown field top_k"), ModelUsage(2, PROMPT_TOKENS, 0, 5)),
        (break_off, ModelUsage(2, READ + PROMPT_TOKENS, 0, 1 + UNSEEN_TOKENS + 5, 1)),
    ],
    ids=["overloaded", "gone", "refused", "broken off"],
)
def test_attempts_that_fail_are_counted(
    server: Server, make: Maker, first: Callable[[Handler, dict[str, Any]], None], usage: ModelUsage
) -> None:
    """A prompt that was refused was not read; one whose answer broke off was."""
    server.script = [first, honest]
    assert charged(make(), ask(1)) == [usage]


def test_questions_to_a_model_are_paid_for_once(server: Server, make: Maker) -> None:
    """By the first text that needs the answer."""
    backend = make()
    request = ask(1, prompt=CHAT, written="Nobody is.")
    (first,), (second,) = charged(backend, request), charged(backend, request)
    assert len(server.questions) == 1
    assert first.requests == 2
    assert first.written_tokens > second.written_tokens == 5
    assert second.requests == 1


def test_a_server_that_does_not_end_its_stream_is_not_waited_for(
    server: Server, make: Maker
) -> None:
    """The candidate is complete; only the report is missing."""

    def step(handler: Handler, body: dict[str, Any]) -> None:
        saying(piece(" One."), piece("", "stop"))(handler, body)
        handler.await_leaving()

    server.always = step
    assert charged(make(), ask(1)) == [ModelUsage(1, READ, 0, 1, 1)]
    assert server.left.wait(60)
