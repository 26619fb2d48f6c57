"""Running the service until it is told to stop."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from hammingmark.server.app import create_app
from hammingmark.server.config import ServerConfig
from hammingmark.server.connections import limited
from hammingmark.server.service import Service

_AFTER_GRACE = 10  # seconds, until connections are cut that have had their last word
_LOOK = 0.1  # seconds between two looks at whether a second signal came
_IDLE = 512  # connections beyond those that the queue holds


class Server(uvicorn.Server):
    """Drains the service before it stops to listen, so that others can see that it stops.

    Args:
        service: what it serves.
    """

    def __init__(self, service: Service) -> None:
        limits = service.config.limits
        proxies = list(service.config.trusted_proxies)
        settings = uvicorn.Config(
            create_app(service),
            host=service.config.host,
            port=service.config.port,
            http=limited(head=limits.body_timeout, stall=limits.request_timeout),
            ws="none",  # there are none, and they would have no limits
            log_config=None,
            access_log=False,  # the application has its own
            server_header=False,
            proxy_headers=bool(proxies),  # others could claim any address, and so any rate
            forwarded_allow_ips=proxies,
            limit_concurrency=limits.queue + _IDLE,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_AFTER_GRACE,
        )
        super().__init__(settings)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Give answers under way their time; a second SIGINT ends it at once."""
        draining = asyncio.ensure_future(self._service.drain())
        while not draining.done() and not self.force_exit:
            await asyncio.wait({draining}, timeout=_LOOK)
        draining.cancel()
        await super().shutdown(sockets)


def run(config: ServerConfig, sockets: list[socket.socket]) -> None:
    """Serve until SIGINT or SIGTERM; answers under way have their time to end.

    Args:
        config: the settings.
        sockets: at which clients connect.

    Raises:
        HammingMarkError: a setting names what there is not.
    """

    async def main() -> None:
        await Server(Service(config)).serve(sockets)

    asyncio.run(main())
