"""Running the service until it is told to stop."""

from __future__ import annotations

import asyncio
from types import FrameType

import uvicorn

from hammingmark.server.app import create_app
from hammingmark.server.config import ServerConfig
from hammingmark.server.service import Service

_AFTER_GRACE = 10  # seconds, until connections are cut that have had their last word


class _Server(uvicorn.Server):
    """Begins to drain the service as soon as the process is told to stop."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._draining: asyncio.Task[None] | None = None
        self._running: asyncio.AbstractEventLoop | None = None

    async def serve(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Serve until told to stop."""
        self._running = asyncio.get_running_loop()
        await super().serve(sockets)  # type: ignore[arg-type]

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains, the second one ends at once."""
        if self._running is not None:
            self._running.call_soon_threadsafe(self._drain)
        super().handle_exit(sig, frame)

    def _drain(self) -> None:
        if self._draining is None:
            self._draining = asyncio.ensure_future(self._service.drain())


def run(config: ServerConfig) -> None:
    """Serve until SIGINT or SIGTERM; answers under way have their time to end.

    Raises:
        HammingMarkError: a setting names what there is not.
    """

    async def main() -> None:
        service = Service(config)
        settings = uvicorn.Config(
            create_app(service),
            host=config.host,
            port=config.port,
            log_config=None,
            access_log=False,  # the application has its own
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=round(config.limits.shutdown_grace) + _AFTER_GRACE,
        )
        await _Server(settings, service).serve()

    asyncio.run(main())
