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
    text_of,
    until,
)

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
