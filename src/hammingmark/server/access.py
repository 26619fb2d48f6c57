"""Who may call what: asked before anything else of a request is read."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request
from starlette.requests import HTTPConnection

from hammingmark.server.api_error import APIError
from hammingmark.server.authorization import bearer_token
from hammingmark.server.config import ServerConfig
from hammingmark.server.detection.schema import ERRORS as _ERRORS
from hammingmark.server.service import Client, Service

ERRORS: dict[int | str, dict[str, Any]] = {
    **_ERRORS,
    408: {"description": "The body did not come in time."},
    415: {"description": "The body is not declared as JSON."},
    421: {"description": "The `Host` is not that of this service."},
}
"""What may go wrong, for the documentation of the interface."""

_SCOPES = (("/v1/watermark/", "detect"), ("/v1/", "generate"), ("/metrics", "admin"))
"""What an API key must be good for, by the beginning of a path."""


def service_of(request: Request) -> Service:
    """The service that an application runs."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


def admit(service: Service, connection: HTTPConnection) -> None:
    """Let in whoever may call this path, as far as its headers tell; its body is not read.

    Raises:
        APIError: they may not, or not so often.
    """
    path = connection.scope["path"]
    scope = next((scope for begin, scope in _SCOPES if path.startswith(begin)), None)
    connection.state.admitted = {}
    if scope is not None:
        connection.state.admitted[scope] = service.client(
            token=bearer_token(connection.headers.get("authorization")),
            scope=scope,
            address=connection.client.host if connection.client else "",
            request_id=connection.state.request_id,
        )


def client_of(scope: str) -> Callable[[Request], Awaitable[Client]]:
    """What tells a route who asks; whoever was not let in for this scope ends here."""

    async def client(request: Request) -> Client:
        admitted = request.state.admitted[scope]
        assert isinstance(admitted, Client)
        return admitted

    return client


def check_host(config: ServerConfig, host: str | None) -> None:
    """Refuse a request that was meant for another host.

    Where everybody on this machine may ask, so may every page in its browser that has its own
    name resolved to this machine; but the browser then says that name.

    Raises:
        APIError: it names another host.
    """
    if not config.is_loopback or config.api_keys is not None or config.open:
        return
    name = (host or "").strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if name in ("", "localhost", config.host.lower()):
        return
    try:
        own = ipaddress.ip_address(name).is_loopback
    except ValueError:
        own = False
    if not own:
        raise APIError(
            421,
            "This service answers to the names of this machine alone; call it by localhost or "
            "127.0.0.1.",
        )
