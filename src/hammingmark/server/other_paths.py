"""Other paths below ``/v1``, such as embeddings, which an upstream answers."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from hammingmark.server.access import client_with_scope, service_of
from hammingmark.server.api_error import APIError
from hammingmark.server.clients import Client
from hammingmark.server.connections import cancel_on_disconnect
from hammingmark.server.event_stream import EventStream
from hammingmark.server.marking.recording import Recorder
from hammingmark.server.service import Service
from hammingmark.server.upstream import Forwarded, is_plain_path

WITHOUT_TEXT = frozenset(
    {
        "embeddings", "moderations", "rerank", "score", "classify", "pooling", "tokenize",
        "detokenize",
    }
)  # fmt: skip
"""Paths whose answers contain no text of a model."""

OWN = frozenset({"chat", "completions", "responses", "models", "watermark"})
"""Paths of this service; what it does not answer below them is not passed on."""

NEVER = frozenset(
    {
        # They write text without a mark.
        "messages", "messages_batches", "complete", "generate", "assistants", "threads", "realtime",
        "batches", "batch", "agents", "infill",
        # What they store, all clients would share.
        "files", "uploads", "vector_stores", "conversations", "containers", "videos", "evals",
        "fine_tuning", "fine-tunes", "prompts", "skills", "memories",
        # They administer the upstream.
        "admin", "organization", "organizations", "projects", "dashboard", "usage", "config",
        "key", "keys", "credentials", "user", "users", "team", "teams", "cache", "slots", "sleep",
        "wake_up", "load_lora_adapter", "unload_lora_adapter", "mcp", "tools",
    }
)  # fmt: skip
"""Paths that are never passed on."""

_UNMARKED = {"X-Watermark-Status": "unmarked"}


class _OtherRoute(APIRoute):
    """The route of the paths that may be passed on."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether it is the route of a request."""
        path = scope["path"].removeprefix("/v1/")
        if not is_plain_path(path) or path.partition("/")[0].lower() in OWN | NEVER:
            return Match.NONE, {}
        return super().matches(scope)


def add_route(app: FastAPI) -> None:
    """Add the route of the paths that may be passed on; call it after all others."""
    app.router.add_api_route(
        "/v1/{path:path}",
        forward,
        methods=["GET", "POST"],
        include_in_schema=False,
        route_class_override=_OtherRoute,
    )


async def forward(
    path: str,
    request: Request,
    client: Annotated[Client, Depends(client_with_scope("generate"))],
    service: Annotated[Service, Depends(service_of)],
) -> Response:
    """The upstream's answer, as it is."""
    policy = service.config.policy
    has_text = path.partition("/")[0].lower() not in WITHOUT_TEXT
    if policy.other_paths == "refuse" or (has_text and policy.unmarkable == "refuse"):
        raise APIError(
            403,
            "The policy of this service does not pass this path on.",
            kind="permission_error",
            code="path_not_allowed",
        )
    forwarded = await _read(request, service)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(service.admitted(client))
        model = forwarded.body.get("model") if isinstance(forwarded.body, dict) else None
        model = model[:200] if isinstance(model, str) else ""
        recorder = Recorder(service.audit, client, endpoint=request.url.path, model=model)
        await recorder.pass_through("unmarkable" if has_text else "no_text")
        assert service.upstream is not None
        exchange = service.exchange()
        answering = exchange.with_deadline(
            service.upstream.forward(forwarded, stack=stack, exchange=exchange)
        )
        response: Response = await cancel_on_disconnect(request, answering)
        if has_text:
            response.headers.update(_UNMARKED)
            service.metrics.count_answer("unmarked", reason="unmarkable")
        return response.closing(stack) if isinstance(response, EventStream) else response


async def _read(request: Request, service: Service) -> Forwarded:
    """The request as the upstream gets it.

    Raises:
        APIError: its body is of a type that is not accepted, or no JSON.
    """
    kind = request.headers.get("content-type", "")
    content = await request.body()
    body: Any = None
    if kind.partition(";")[0].strip() == "application/json":
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            raise APIError(400, "The body of the request is not JSON.") from None
        if isinstance(body, dict) and body.get("model") == service.config.model_name:
            model = service.upstream.default_model if service.upstream else None
            body = {**body, "model": model or body["model"]}
            content = json.dumps(body).encode()
    elif content and "origin" in request.headers:
        # A page elsewhere could send it without asking first.
        message = "The body must be JSON, with the header Content-Type: application/json."
        raise APIError(415, message)
    return Forwarded(
        request.method,
        request.url.path.removeprefix("/v1"),
        query=request.url.query,
        content=content,
        content_type=kind,
        accept=request.headers.get("accept", "*/*"),
        body=body,
    )
