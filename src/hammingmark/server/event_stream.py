"""Server-sent events to a client who may leave at any time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

import anyio
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class EventStream(StreamingResponse):
    """A stream of events that ends as soon as its client leaves, also between two events.

    Args:
        events: the events.
        held: what to let go of at the end.
        headers: further headers.
        status: of HTTP.
        kind: of the content, where it is none of ours.
    """

    def __init__(
        self,
        events: AsyncIterator[bytes],
        held: AsyncExitStack,
        *,
        headers: Mapping[str, str],
        status: int = 200,
        kind: str | None = "text/event-stream",
    ) -> None:
        # Proxies must not keep events back.
        told = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **headers}
        super().__init__(events, status, told, media_type=kind)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        async with self._held, anyio.create_task_group() as group:

            async def leave() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(leave)
            await self.stream_response(send)
            group.cancel_scope.cancel()
