"""Server-sent events to a client who may leave at any time, or not read them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

import anyio
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from hammingmark.server.logs import log_event

_LOG = logging.getLogger("hammingmark.server")
_LAST_WORDS = 2.0  # seconds beyond the limit, for the event which says that the time is up


class EventStream(StreamingResponse):
    """A stream of events that ends as soon as its client leaves, also between two events.

    Args:
        events: the events.
        headers: further headers.
        limit: seconds in which the client must have taken all of it; what it leaves is not sent.
    """

    def __init__(
        self,
        events: AsyncIterator[bytes],
        *,
        headers: Mapping[str, str],
        limit: float,
    ) -> None:
        # Proxies must not keep events back.
        told = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **headers}
        super().__init__(events, headers=told, media_type="text/event-stream")
        self._held = AsyncExitStack()
        self._limit = limit

    def holding(self, held: AsyncExitStack) -> EventStream:
        """This stream, which lets go of all that is held at its end."""
        self._held = held.pop_all()
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        async with self._held, anyio.create_task_group() as group:

            async def leave() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(leave)
            with anyio.move_on_after(self._limit + _LAST_WORDS) as sending:
                await self.stream_response(send)
            if sending.cancelled_caught:
                log_event(_LOG, "client too slow", level=logging.WARNING)
            group.cancel_scope.cancel()
