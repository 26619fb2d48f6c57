"""Connections of clients, with the limits on time that uvicorn does not have."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from hammingmark.server.api_error import APIError


def limited(*, head: float, stall: float) -> type[H11Protocol]:
    """A kind of connection that ends where its client does not go on.

    Args:
        head: seconds in which the head of a request must arrive once it is awaited.
        stall: seconds in which a client must take what waits to be sent.
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
            # What is still to be sent would keep the connection from being closed.
            self._stall = self.loop.call_later(stall, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._end_stall()

        def _await_head(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self._end_head()
            elif self._head is None:
                self._head = self.loop.call_later(head, self._give_up)

        def _give_up(self) -> None:
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


Answer = TypeVar("Answer")


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Wait for something, and give it up if the client leaves.

    Raises:
        APIError: it left.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise APIError(499, "The client left.", kind="client_error")
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
