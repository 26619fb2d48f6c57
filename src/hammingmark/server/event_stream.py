"""Server-sent events to a client who may leave at any time, or not read them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

import anyio
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from hammingmark.server.logs import log_event

_LOG = logging.getLogger("hammingmark.server")
_LAST_WORDS = 10.0  # seconds beyond the limit, for the verdict and the event that ends it
_SILENCE = 15.0  # seconds after which a client and the proxies before it get a sign of life


async def with_keep_alive(
    events: AsyncIterator[bytes], *, silence: float = _SILENCE
) -> AsyncIterator[bytes]:
    """Events, and comments where none comes for a while: proxies cut connections that are silent.

    Args:
        events: the events.
        silence: seconds.
    """
    coming: asyncio.Future[bytes | None] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(events))
            await asyncio.wait({coming}, timeout=silence)
            if not coming.done():
                yield b": the next sentence is being written\n\n"
                continue
            found, coming = coming.result(), None
            if found is None:
                return
            yield found
    finally:
        if coming is not None:
            coming.cancel()
            with anyio.CancelScope(shield=True):  # who holds the events closes them next
                await asyncio.wait({coming})


async def _next(events: AsyncIterator[bytes]) -> bytes | None:
    return await anext(events, None)


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
        super().__init__(with_keep_alive(events), headers=told, media_type="text/event-stream")
        self._held = AsyncExitStack()
        self._limit = limit

    def holding(self, held: AsyncExitStack) -> EventStream:
        """This stream, which lets go of all that is held at its end."""
        self._held = held.pop_all()
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        is_sending = False

        async def noted(message: Message) -> None:
            nonlocal is_sending
            is_sending = True
            await send(message)
            is_sending = False

        async with self._held, anyio.create_task_group() as group:

            async def leave() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(leave)
            with anyio.move_on_after(self._limit + _LAST_WORDS) as sending:
                await self.stream_response(noted)
            if sending.cancelled_caught:
                words = "client too slow" if is_sending else "stream cut at its limit"
                log_event(_LOG, words, level=logging.WARNING)
            group.cancel_scope.cancel()
