"""Who may call what: what routes ask for before they do anything."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request

from hammingmark.server.authorization import bearer_token
from hammingmark.server.detection.schema import ERRORS
from hammingmark.server.service import Client, Service

__all__ = ["ERRORS", "client_of", "service_of"]


def service_of(request: Request) -> Service:
    """The service that an application runs."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


def client_of(scope: str) -> Callable[[Request], Client]:
    """What lets in those who have an API key for a scope."""

    def client(request: Request) -> Client:
        return service_of(request).client(
            token=bearer_token(request.headers.get("authorization")),
            scope=scope,
            address=request.client.host if request.client else "",
            request_id=request.state.request_id,
        )

    return client
