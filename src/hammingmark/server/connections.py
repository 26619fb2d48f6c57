"""Connections of clients, with time limits that uvicorn lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from hammingmark.server.api_error import APIError


def limited_protocol(*, head: float, stall: float) -> type[H11Protocol]:
    """A connection class that closes when its client stalls.

    Args:
        head: seconds for the head of a request to arrive.
        stall: seconds in which a client must read the data that waits to be sent.
    """

    class Limited(H11Protocol):
        _head: asyncio.TimerHandle | None = None
        _stall: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._await_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._end_head()
            self._end_stall()

        def pause_writing(self) -> None:
            super().pause_writing()
            # abort, because close() would wait for the unsent data.
            self._stall = self.loop.call_later(stall, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._end_stall()

        def _await_head(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self._end_head()
            elif self._head is None:
                self._head = self.loop.call_later(head, self._close_idle)

        def _close_idle(self) -> None:
            self._head = None
            if self.cycle is None or self.cycle.response_complete:
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
