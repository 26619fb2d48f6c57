"""Connections on which nothing arrives keep nobody out."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from tests.unit.server.harness import CHAT, QUESTION, GatedBackend, Home, Live, error_of, until

from hammingmark.server import admission, app, run
from hammingmark.server.connections import WaitingConnections


@dataclass(eq=False)
class FakeConnection:
    address: str = "198.51.100.1"
    is_open: bool = field(default=True, init=False)

    def abort(self) -> None:
        self.is_open = False


def connect(waiting: WaitingConnections, count: int, address: str) -> list[FakeConnection]:
    made = [FakeConnection(address) for _ in range(count)]
    for connection in made:
        waiting.add(connection)
    return made


def test_the_connection_that_waits_longest_makes_room() -> None:
    waiting = WaitingConnections(3, per_client=100)
    first, second, third = connect(waiting, 3, "198.51.100.1")
    waiting.begin_request(first)
    (fourth,) = connect(waiting, 1, "198.51.100.2")
    assert [each.is_open for each in (first, second, third, fourth)] == [True, False, True, True]
    waiting.end_request(first)  # and begins to wait after the others
    connect(waiting, 1, "198.51.100.2")
    assert [each.is_open for each in (first, third, fourth)] == [True, False, True]


def test_connections_with_requests_are_never_closed() -> None:
    waiting = WaitingConnections(2, per_client=100)
    running = connect(waiting, 2, "198.51.100.1")
    for connection in running:
        waiting.begin_request(connection)
    connect(waiting, 3, "198.51.100.1")
    assert all(connection.is_open for connection in running)


def test_a_client_has_few_connections_without_a_head() -> None:
    now = 0.0
    waiting = WaitingConnections(1000, per_client=4, exempt=["203.0.113.1"], clock=lambda: now)
    burst = connect(waiting, 20, "198.51.100.1")
    proxied = connect(waiting, 20, "203.0.113.1")
    assert all(each.is_open for each in burst)  # their heads may be on the way
    waiting.begin_request(burst[0])
    now = 1.0
    (new,) = connect(waiting, 1, "198.51.100.1")
    assert [each.is_open for each in burst] == [True] + [False] * 16 + [True] * 3
    assert new.is_open
    (other,) = connect(waiting, 1, "198.51.100.2")
    connect(waiting, 1, "203.0.113.1")
    assert all(each.is_open for each in [other, *proxied])


def test_a_closed_connection_leaves_nothing_behind() -> None:
    waiting = WaitingConnections(10, per_client=1)
    for connection in connect(waiting, 5, "198.51.100.1"):
        waiting.begin_request(connection)
        waiting.remove(connection)
        waiting.end_request(connection)  # the end of a response to a client that has left
    assert (waiting._open, waiting._waiting, waiting._new) == (set(), {}, {})


def test_health_is_told_however_many_connections_send_nothing(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (app, run):
        monkeypatch.setattr(module, "EXTRA_REQUESTS", 10)
    service = live(limits={"queue": 10})
    with ExitStack() as opened:
        silent = [
            opened.enter_context(socket.create_connection(service._socket.getsockname()))
            for _ in range(60)
        ]
        assert service.client.get("/healthz").status_code == 200
        answer = service.client.post(CHAT, json={"messages": QUESTION, "max_tokens": 10})
        assert answer.status_code == 200
        silent[0].settimeout(10)
        assert silent[0].recv(1) == b""  # it made room


HALF = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def ask_by_half(service: Live, opened: ExitStack, content: bytes, *, token: str) -> socket.socket:
    """A connection with a request that has the first byte of its body."""
    made = opened.enter_context(socket.create_connection(service._socket.getsockname(), timeout=60))
    head = HALF % CHAT.encode() + b"Authorization: Bearer %b\r\n" % token.encode()
    made.sendall(head + b"Content-Length: %d\r\n\r\n" % len(content) + content[:1])
    return made


def answered(connections: list[socket.socket]) -> list[socket.socket]:
    """Those on which something has arrived, or that are closed."""
    return select.select(connections, [], [], 0)[0]


def test_requests_without_their_bodies_keep_nobody_else_out(
    live: Callable[..., Live], home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (app, run):
        monkeypatch.setattr(module, "EXTRA_REQUESTS", 10)
    slow, other = home.let_in("slow"), home.let_in("other")
    service = live(limits={"queue": 10}, api_keys=home.api_keys)
    with ExitStack() as opened:
        halves = [ask_by_half(service, opened, b"{}", token=slow) for _ in range(20)]
        until(lambda: len(answered(halves)) == 10)
        assert {half.recv(12) for half in answered(halves)} == {b"HTTP/1.1 429"}
        asked = {"messages": QUESTION, "max_tokens": 10}
        for token, told in ((other, 200), (slow, 429)):
            headers = {"Authorization": f"Bearer {token}"}
            answer = service.client.post(CHAT, json=asked, headers=headers)
            assert answer.status_code == told
            assert service.client.get("/v1/models", headers=headers).status_code == 200
        assert error_of(answer)["code"] == "too_many_requests"
        waiting = next(half for half in halves if half not in answered(halves))
        waiting.sendall(b"}")
        assert waiting.recv(12) == b"HTTP/1.1 422"
        assert service.client.post(CHAT, json=asked, headers=headers).status_code == 200


def test_of_many_bodies_of_one_client_some_are_waited_for_briefly(
    live: Callable[..., Live], home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_GRACE", 0.05)
    monkeypatch.setattr(admission.IncomingBodies.__init__, "__kwdefaults__", {"patient": 2})
    token = home.let_in("slow")
    service = live(api_keys=home.api_keys)
    with ExitStack() as opened:
        halves = [ask_by_half(service, opened, b"{}", token=token) for _ in range(5)]
        until(lambda: len(answered(halves)) == 3)
        late = answered(halves)
        assert {half.recv(12) for half in late} == {b"HTTP/1.1 408"}
        for half in set(halves) - set(late):
            half.sendall(b"}")
            assert half.recv(12) == b"HTTP/1.1 422"


def test_health_is_told_under_more_requests_than_may_run(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "EXTRA_REQUESTS", 0)
    backend = GatedBackend()
    service = live(backend=backend, limits={"queue": 2})
    with service.asking() as first, service.asking():
        until(lambda: service.service._engine.unfinished == 2)
        refused = service.client.get("/v1/models")
        assert (refused.status_code, error_of(refused)["code"]) == (503, "too_many_requests")
        assert "retry-after" in refused.headers
        for path in ("/healthz", "/readyz"):
            assert service.client.get(path).status_code == 200
        backend.gate.set()
        assert first.recv(100).startswith(b"HTTP/1.1 200 ")
