"""Many clients at one model: nobody waits for all that another has asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from tests.unit.server.harness import (
    PATIENCE,
    TEXT,
    GatedBackend,
    Home,
    Served,
    error_of,
    text_of,
    until,
)

from hammingmark.protocols import BackendCapabilities
from hammingmark.records import Prompt
from hammingmark.server.api_error import APIError
from hammingmark.server.clients import Client

CLIENT = Client("r-1", "192.0.2.1", None)

Serve = Callable[..., Served]


def test_a_client_who_asks_for_much_keeps_nobody_waiting(serve: Serve, home: Home) -> None:
    """Clients are told apart by their API keys, and take turns."""
    backend = GatedBackend(parallel=2)
    tokens = [home.let_in("much"), home.let_in("little")]
    served = serve(backend=backend, api_keys=home.api_keys)
    prompts = ["It rained for days.", "It was late."]
    asked: list[dict[str, Any]] = [{"n": 6, "max_tokens": 300}, {"max_tokens": 20}]

    def ask(who: int) -> Any:
        served.token = tokens[who]
        body = {"prompt": prompts[who], "seed": 3} | asked[who]
        asking = served._ask("POST", TEXT, json=body)
        return asyncio.run_coroutine_threadsafe(asking, served.loop._loop)

    much = ask(0)
    until(lambda: served.service._engine.unfinished == 6)
    little = ask(1)
    until(lambda: served.service._engine.unfinished == 7)
    backend.gate.set()
    answers: list[httpx.Response] = [much.result(PATIENCE), little.result(PATIENCE)]
    drawn = [request.prompt for request in backend.drawn]
    of_little = [place for place, prompt in enumerate(drawn) if prompt == Prompt(prompts[1])]
    assert of_little[-1] < len(drawn) // 2
    served.token = tokens[1]
    alone = served.complete(prompt=prompts[1], **asked[1])
    assert text_of(answers[1]) == text_of(alone)
    assert all(text_of(answers[0], index) for index in range(6))


def test_an_unmarked_answer_makes_room_too(serve: Serve) -> None:
    """The embedded model writes it in parts, whether or not it is streamed, and it is the same."""
    continues = BackendCapabilities(continues=lambda prompt, sampling: True)
    backend = GatedBackend(parallel=1, capabilities=continues)
    served = serve(backend=backend)
    long = {"prompt": "It rained for days.", "temperature": 0, "max_tokens": 400, "seed": 3}
    short = {"prompt": "It was late.", "max_tokens": 20, "seed": 3}
    asked = []
    for number, body in enumerate((long, short)):
        asking = served._ask("POST", TEXT, json=body)
        asked.append(asyncio.run_coroutine_threadsafe(asking, served.loop._loop))
        until(lambda count=number + 1: served.service._engine.unfinished == count)
    backend.gate.set()
    answers = [each.result(PATIENCE) for each in asked]
    drawn = [request.prompt.text for request in backend.drawn]
    assert drawn.index(short["prompt"]) < len(drawn) - 1 - drawn[::-1].index(long["prompt"])
    assert text_of(served.post(TEXT, long)) == text_of(answers[0])
    assert text_of(served.post(TEXT, short)) == text_of(answers[1])


def test_an_answer_that_would_wait_too_long_is_refused_at_once(serve: Serve) -> None:
    backend = GatedBackend(parallel=1)
    served = serve(backend=backend, limits={"first_sentence_wait": 60.0})
    body = {"prompt": "It rained for days.", "seed": 3, "max_tokens": 20}
    asking = served._ask("POST", TEXT, json=body | {"n": 4})
    waiting = asyncio.run_coroutine_threadsafe(asking, served.loop._loop)
    until(lambda: served.service._engine.unfinished == 4)
    pace = served.service._engine.pace
    pace.record(10, 10.0, texts=1)
    pace.record_first(15)  # 75 seconds for five
    refused = served.post(TEXT, body)
    assert (refused.status_code, error_of(refused)["code"]) == (429, "busy")
    assert 1 <= int(refused.headers["Retry-After"]) <= 120
    assert len(served.service.admission) == 4
    backend.gate.set()
    assert text_of(waiting.result(PATIENCE), 3)
    assert served.post(TEXT, body).status_code == 200


def test_room_is_for_answers_not_for_requests(serve: Serve) -> None:
    service = serve(limits={"queue": 5}).service

    async def ask() -> None:
        async with AsyncExitStack() as held:
            await held.enter_async_context(service.admitted(CLIENT, 3))
            await held.enter_async_context(service.admitted(CLIENT, 2))
            with pytest.raises(APIError) as full:
                await held.enter_async_context(service.admitted(CLIENT))
            assert (full.value.status, full.value.code) == (429, "queue_full")
            assert full.value.retry_after
        async with service.admitted(CLIENT, 8):  # which no waiting would make less
            assert len(service.admission) == 8
            with pytest.raises(APIError):
                await service.admitted(CLIENT).__aenter__()
        assert len(service.admission) == 0

    asyncio.run(ask())
