"""Server-sent events, for clients that may disconnect or stall."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack

import anyio
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from hammingmark.server.logs import log_event

_LOG = logging.getLogger("hammingmark.server")
_LIMIT_GRACE = 10.0  # seconds beyond the limit, for detection and the last event
_KEEP_ALIVE = 15.0  # seconds between two events, for proxies that cut idle connections


async def with_keep_alive(
    events: AsyncIterator[bytes], *, interval: float = _KEEP_ALIVE
) -> AsyncIterator[bytes]:
    """The events of a stream, and a comment whenever none arrives for an interval.

    Args:
        events: the events.
        interval: seconds.
    """
    pending: asyncio.Future[bytes | None] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(_next(events))
            await asyncio.wait({pending}, timeout=interval)
            if not pending.done():
                yield b": the next sentence is being written\n\n"
                continue
            event, pending = pending.result(), None
            if event is None:
                return
            yield event
    finally:
        if pending is not None:
            pending.cancel()
            with anyio.CancelScope(shield=True):  # the caller closes the events next
                await asyncio.wait({pending})


async def _next(events: AsyncIterator[bytes]) -> bytes | None:
    return await anext(events, None)


class EventStream(StreamingResponse):
    """A stream of events that ends as soon as its client disconnects, even between two events.

    Args:
        events: the events.
        headers: further headers.
        limit: seconds in which the client must read all events; the rest is not sent.
    """

    def __init__(
        self,
        events: AsyncIterator[bytes],
        *,
        headers: Mapping[str, str],
        limit: float,
    ) -> None:
        # The headers tell proxies not to buffer events.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **headers}
        super().__init__(with_keep_alive(events), headers=headers, media_type="text/event-stream")
        self._events = events
        self._stack = AsyncExitStack()
        self._limit = limit

    def closing(self, stack: AsyncExitStack) -> EventStream:
        """This stream, which takes over the exit stack and closes it at its end."""
        self._stack = stack.pop_all()
        return self

    def translated(
        self, translate: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]
    ) -> EventStream:
        """This stream with other events; call it before it is sent.

        Args:
            translate: makes those events of these.
        """
        self._events = translate(self._events)
        self.body_iterator = with_keep_alive(self._events)
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        is_sending = False

        async def track(message: Message) -> None:
            nonlocal is_sending
            is_sending = True
            await send(message)
            is_sending = False

        async with self._stack, anyio.create_task_group() as group:

            async def cancel_on_disconnect() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(cancel_on_disconnect)
            with anyio.move_on_after(self._limit + _LIMIT_GRACE) as sending:
                await self.stream_response(track)
            if sending.cancelled_caught:
                event = "client too slow" if is_sending else "stream cut at its limit"
                log_event(_LOG, event, level=logging.WARNING)
            group.cancel_scope.cancel()
