"""Running the service until it is stopped."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from hammingmark.server.app import EXTRA_REQUESTS, create_app
from hammingmark.server.config import ServerConfig
from hammingmark.server.connections import WaitingConnections, limited_protocol
from hammingmark.server.service import Service

_CLOSE_GRACE = 10  # seconds for connections to close after their answers have ended
_POLL = 0.1  # seconds between two checks for a second signal
_MAX_NEW = 64  # connections of one client without a complete head


class Server(uvicorn.Server):
    """A server that drains requests while still listening, so that load balancers notice.

    Args:
        service: the service.
    """

    def __init__(self, service: Service) -> None:
        limits = service.config.limits
        proxies = list(service.config.trusted_proxies)
        waiting = WaitingConnections(
            limits.queue + EXTRA_REQUESTS, per_client=_MAX_NEW, exempt=proxies
        )
        settings = uvicorn.Config(
            create_app(service),
            host=service.config.host,
            port=service.config.port,
            http=limited_protocol(waiting, head=limits.head_timeout, stall=limits.request_timeout),
            ws="none",  # no websockets, which would have no limits
            log_config=None,
            access_log=False,  # the application logs requests
            server_header=False,
            proxy_headers=bool(proxies),  # otherwise clients could claim any address
            forwarded_allow_ips=proxies,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_CLOSE_GRACE,
        )
        super().__init__(settings)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain the service and stop; a second SIGINT stops it at once."""
        draining = asyncio.ensure_future(self._service.drain())
        while not draining.done() and not self.force_exit:
            await asyncio.wait({draining}, timeout=_POLL)
        draining.cancel()
        await super().shutdown(sockets)


def run(config: ServerConfig, sockets: list[socket.socket]) -> None:
    """Serve until SIGINT or SIGTERM, then drain the running requests.

    Args:
        config: the settings.
        sockets: the sockets to listen on.

    Raises:
        HammingMarkError: a setting refers to something that does not exist.
    """

    async def main() -> None:
        await Server(Service(config)).serve(sockets)

    asyncio.run(main())
