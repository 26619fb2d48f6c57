"""Connections of clients, with limits that uvicorn lacks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Protocol, TypeVar

from fastapi import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from hammingmark.server.api_error import APIError
from hammingmark.server.clients import client_network

_HEAD_GRACE = 1.0  # seconds; many clients behind one address may connect at once


class WaitingConnections:
    """Connections on which no request is in progress; the oldest ones make room for new ones.

    Whoever opens connections and sends nothing so loses them first, and keeps nobody else out.

    Args:
        total: how many connections there may be; those with requests are never closed.
        per_client: how many connections of one client may have sent no complete head a second
            after they were opened.
        exempt: addresses without that bound, such as those of reverse proxies.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        total: int,
        *,
        per_client: int,
        exempt: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._per_client = per_client
        self._exempt = frozenset(exempt)
        self._clock = clock
        self._open: set[Connection] = set()
        self._waiting: dict[Connection, None] = {}  # the longest-waiting one first
        # By client, the oldest one first, with the time at which it was opened.
        self._new: dict[str, dict[Connection, float]] = {}

    def add(self, connection: Connection) -> None:
        """Add a new connection; it may take the place of an older one."""
        self._open.add(connection)
        self._waiting[connection] = None
        if connection.address not in self._exempt:
            new = self._new.setdefault(client_network(connection.address), {})
            new[connection] = now = self._clock()
            while len(new) > self._per_client and now - new[next(iter(new))] >= _HEAD_GRACE:
                self._close(next(iter(new)))
        if len(self._open) > self._total and len(self._waiting) > 1:
            self._close(next(iter(self._waiting)))

    def begin_request(self, connection: Connection) -> None:
        """A connection has sent the head of a request."""
        self._waiting.pop(connection, None)
        self._forget_new(connection)

    def end_request(self, connection: Connection) -> None:
        """A connection waits again."""
        if connection in self._open:
            self._waiting[connection] = None

    def remove(self, connection: Connection) -> None:
        """A connection is closed."""
        self._open.discard(connection)
        self.begin_request(connection)

    def _close(self, connection: Connection) -> None:
        self.remove(connection)
        connection.abort()

    def _forget_new(self, connection: Connection) -> None:
        client = client_network(connection.address)
        if new := self._new.get(client):
            new.pop(connection, None)
            if not new:
                del self._new[client]


class Connection(Protocol):
    """A connection of a client."""

    @property
    def address(self) -> str:
        """The address of the client."""

    def abort(self) -> None:
        """Close it at once."""


def limited_protocol(
    waiting: WaitingConnections, *, head: float, stall: float
) -> type[H11Protocol]:
    """A connection class that closes when its client stalls.

    Args:
        waiting: the connections without a request.
        head: seconds for the head of a request to arrive.
        stall: seconds in which a client must read the data that waits to be sent.
    """

    class Limited(H11Protocol):
        _head: asyncio.TimerHandle | None = None
        _stall: asyncio.TimerHandle | None = None

        @property
        def address(self) -> str:
            return self.client[0] if self.client else ""

        def abort(self) -> None:
            self.transport.abort()

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            waiting.add(self)
            self._await_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._await_head()

        def on_response_complete(self) -> None:
            waiting.end_request(self)
            super().on_response_complete()  # may begin a request that has arrived already
            if self._has_request:
                waiting.begin_request(self)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            waiting.remove(self)
            self._end_head()
            self._end_stall()

        def pause_writing(self) -> None:
            super().pause_writing()
            # abort, because close() would wait for the unsent data.
            self._stall = self.loop.call_later(stall, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._end_stall()

        @property
        def _has_request(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _await_head(self) -> None:
            if self._has_request:
                waiting.begin_request(self)
                self._end_head()
            elif self._head is None:
                self._head = self.loop.call_later(head, self._close_idle)

        def _close_idle(self) -> None:
            self._head = None
            if not self._has_request:
                self.transport.abort()

        def _end_head(self) -> None:
            if self._head is not None:
                self._head.cancel()
                self._head = None

        def _end_stall(self) -> None:
            if self._stall is not None:
                self._stall.cancel()
                self._stall = None

    return Limited


Result = TypeVar("Result")


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Await a coroutine, and cancel it if the client disconnects.

    Raises:
        APIError: the client disconnected.
    """
    task = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise APIError(499, "The client disconnected.", kind="client_error")
    finally:
        for future in (task, disconnect):
            future.cancel()
        await asyncio.gather(task, disconnect, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
