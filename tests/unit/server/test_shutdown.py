"""The end of the service: answers under way have their time, and then a last word."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import httpx
import pytest
from tests.unit.server.harness import (
    CHAT,
    DETECT,
    PATIENCE,
    QUESTION,
    TOKENS,
    GatedBackend,
    Home,
    Live,
    Served,
    error_of,
    until,
)

from hammingmark.server.audit import verify
from hammingmark.server.run import Server, run
from hammingmark.server.settings import ServerConfig

Make = Callable[..., Live]


def test_a_stream_is_finished_within_the_grace(live: Make, home: Home) -> None:
    backend = GatedBackend(after=2)
    service = live(backend=backend, audit={"file": home.audit})
    with service.stream() as events:
        next(events)
        service.tell_to_stop()
        until(lambda: service.service.problems())
        backend.gate.set()
        *_, last, done = events
        assert done == "[DONE]"
        assert last["watermark"]["status"] == "marked"
    service.wait_for_end()
    assert backend.sessions[-1].closed
    assert home.records("end")[0]["error"] is None
    assert home.records("stopped")
    assert verify(home.audit) == []


@pytest.mark.parametrize("grace", [0, 0.05])
def test_a_stream_beyond_the_grace_ends_with_an_error(live: Make, home: Home, grace: float) -> None:
    limits = {"shutdown_grace": grace}
    service = live(backend=GatedBackend(after=2), limits=limits, audit={"file": home.audit})
    with service.stream() as events:
        next(events)
        service.tell_to_stop()
        *_, last = events
        assert "[DONE]" not in last
        assert "shutting down" in last["error"]["message"]
    service.wait_for_end()
    assert home.records("end")[0]["error"] == "cut short"
    assert verify(home.audit) == []


def test_a_whole_answer_beyond_the_grace_is_refused(live: Make) -> None:
    service = live(backend=GatedBackend(after=1), limits={"shutdown_grace": 0})
    found: list[httpx.Response] = []
    body = {"messages": QUESTION, "max_tokens": TOKENS, "seed": 3}
    asking = threading.Thread(target=lambda: found.append(service.client.post(CHAT, json=body)))
    asking.start()
    until(lambda: service.service._engine.unfinished == 1)
    service.tell_to_stop()
    asking.join(PATIENCE)
    assert found[0].status_code == 503
    assert error_of(found[0])["type"] == "server_error"
    service.wait_for_end()


def test_nobody_is_let_in_any_more(home: Home, serve: Callable[..., Served]) -> None:
    backend = GatedBackend(after=1)
    served = serve(backend=backend)
    served.loop.run(served.service.load())
    assert served.get("/readyz").json() == {"status": "ready", "reasons": []}
    under_way = asyncio.run_coroutine_threadsafe(
        served._ask("POST", CHAT, json={"messages": QUESTION, "max_tokens": TOKENS, "seed": 3}),
        served.loop._loop,
    )
    until(lambda: served.service._engine.unfinished == 1)
    stopping = asyncio.run_coroutine_threadsafe(served.service.drain(), served.loop._loop)
    until(served.service.problems)
    assert served.get("/readyz").status_code == 503
    assert served.get("/readyz").json()["reasons"] == ["The service is shutting down."]
    assert served.get("/healthz").status_code == 200
    late = [served.chat(), served.chat(stream=True), served.post(DETECT, {"text": "."})]
    for answer in late:
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
    assert not stopping.done()
    backend.gate.set()
    assert under_way.result(PATIENCE).status_code == 200
    stopping.result(PATIENCE)
    served.loop.run(served.service.drain())  # once more, which is nothing


def test_it_says_that_it_stops_as_long_as_answers_are_under_way(live: Make) -> None:
    """To those who come anew, so that a load balancer sends them elsewhere."""
    backend = GatedBackend(after=2)
    service = live(backend=backend)
    with service.stream() as events:
        next(events)
        service.tell_to_stop()
        until(lambda: service.service.problems())
        ready = httpx.get(f"{service.root}/readyz", timeout=PATIENCE)
        assert ready.status_code == 503
        assert "The service is shutting down." in ready.json()["reasons"]
        body = {"messages": QUESTION}
        assert httpx.post(service.root + CHAT, json=body, timeout=PATIENCE).status_code == 503
        backend.gate.set()
        assert list(events)[-1] == "[DONE]"
    service.wait_for_end()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{service.root}/readyz")


def test_a_second_sigint_ends_it_at_once(live: Make) -> None:
    service = live(backend=GatedBackend(after=2), limits={"shutdown_grace": PATIENCE * 10})
    with service.stream() as events:
        next(events)
        service.tell_to_stop()
        until(lambda: service.service.problems())
        service.tell_to_stop(signal.SIGINT)
        service.wait_for_end()


def test_an_idle_service_ends_at_once(live: Make) -> None:
    service = live(limits={"shutdown_grace": PATIENCE * 10})
    assert service.client.get("/healthz").status_code == 200
    service.tell_to_stop()
    service.wait_for_end()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{service.root}/healthz")


def test_the_service_runs_as_the_settings_say(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its start to a signal, in the thread that runs it."""
    started: SimpleQueue[Server] = SimpleQueue()

    class Watched(Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.put(self)

    monkeypatch.setattr("hammingmark.server.run.Server", Watched)
    monkeypatch.setattr("hammingmark.server.run.Service", lambda config: home.service(port=0))
    opened = socket.create_server(("127.0.0.1", 0))
    host, port = opened.getsockname()
    running = threading.Thread(target=run, args=(ServerConfig(), [opened]), daemon=True)
    running.start()
    server = started.get(timeout=PATIENCE)
    answer = httpx.get(f"http://{host}:{port}/healthz")
    assert answer.json() == {"status": "alive"}
    assert "server" not in answer.headers
    server.handle_exit(signal.SIGTERM, None)
    running.join(PATIENCE)
    assert not running.is_alive()
