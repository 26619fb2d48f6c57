"""Access control, before the body of a request is read."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import Request
from starlette.requests import HTTPConnection

from hammingmark.server.api_error import APIError
from hammingmark.server.authorization import bearer_token
from hammingmark.server.clients import Client
from hammingmark.server.config import ServerConfig
from hammingmark.server.service import Service

ABOUT = "/v1/watermark/about"
"""The path that says who runs the service, which anybody may ask."""

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request is invalid; the error says why."},
    401: {"description": "The API key is missing or unknown."},
    403: {"description": "The API key lacks the scope, or the policy forbids the request."},
    404: {"description": "No such key or model."},
    408: {"description": "The body did not arrive in time."},
    413: {"description": "The request is too large."},
    415: {"description": "The body is not declared as JSON."},
    421: {"description": "The `Host` is not a name of this service."},
    422: {"description": "A field is missing, unknown or of the wrong type."},
    429: {"description": "Too many requests; `Retry-After` says when to try again."},
    502: {"description": "The language model failed."},
    503: {"description": "The service cannot mark, detect or record at the moment."},
    504: {"description": "The request timed out."},
}
"""The error responses, for the OpenAPI schema."""

_FORWARDING = ("forwarded", "x-forwarded-for", "x-real-ip")
"""The headers by which proxies tell the address of a client."""

_SCOPES = (
    (ABOUT, None),
    ("/v1/watermark/", "detect"),
    ("/v1/", "generate"),
    ("/metrics", "admin"),
)
"""The scope that a path needs, by its beginning; None if it needs no API key."""


def service_of(request: Request) -> Service:
    """A route dependency: the service."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


def admit(service: Service, connection: HTTPConnection) -> None:
    """Authenticate the client of a request by its headers, if its path needs a scope.

    Raises:
        APIError: the client may not call the path, or sends too many requests.
    """
    path = connection.scope["path"]
    scope = next((scope for prefix, scope in _SCOPES if path.startswith(prefix)), None)
    connection.state.admitted = {}
    if scope is not None:
        connection.state.admitted[scope] = service.clients.authenticate(
            bearer_token(connection.headers.get("authorization")),
            scope=scope,
            address=connection.client.host if connection.client else "",
            request_id=connection.state.request_id,
        )


def client_with_scope(scope: str) -> Callable[[Request], Awaitable[Client]]:
    """A route dependency: the client, authenticated for a scope."""

    async def client(request: Request) -> Client:
        client = request.state.admitted[scope]
        assert isinstance(client, Client)
        return client

    return client


def check_forwarding(config: ServerConfig, headers: Mapping[str, str]) -> None:
    """Refuse a request that a proxy forwards to a service that only this machine should use.

    Such a service trusts its clients; through a proxy on the same machine anybody could be one.

    Raises:
        APIError: the request was forwarded.
    """
    if config.is_private and any(name in headers for name in _FORWARDING):
        raise APIError(
            403,
            "This service trusts everybody who reaches it, since its settings let only this "
            "machine do so, but a proxy forwarded this request. Set trusted_proxies, api_keys or "
            "open.",
            code="forwarded",
        )


def check_host(config: ServerConfig, host: str | None) -> None:
    """Refuse a request for another host, against DNS rebinding.

    If every process of this machine may call the service, so may a web page whose own name
    resolves to this machine; the browser then sends that name.

    Raises:
        APIError: the request names another host.
    """
    if not config.is_loopback or config.api_keys is not None or config.open:
        return
    name = (host or "").strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if name in ("", "localhost", config.host.lower()):
        return
    try:
        is_loopback = ipaddress.ip_address(name).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise APIError(
            421,
            "This service accepts only requests to this machine's own names; use localhost or "
            "127.0.0.1.",
        )
