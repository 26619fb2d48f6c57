"""The application: routes, error handlers, the middleware of every request."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Annotated, Any

import anyio
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hammingmark._version import __version__
from hammingmark.errors import HammingMarkError
from hammingmark.server import other_paths
from hammingmark.server.access import (
    ERRORS,
    admit,
    check_forwarding,
    check_host,
    client_with_scope,
)
from hammingmark.server.admission import IncomingBodies
from hammingmark.server.api_error import APIError
from hammingmark.server.clients import Client
from hammingmark.server.detection import router as detection_router
from hammingmark.server.logs import log_event
from hammingmark.server.logs import request_id as current_request
from hammingmark.server.marking import router as marking_router
from hammingmark.server.pages import add_page_routes
from hammingmark.server.responses import router as responses_router
from hammingmark.server.service import Service

_LOG = logging.getLogger("hammingmark.server")
_EXPOSED_HEADERS = (
    "Retry-After", "X-Request-Id", "X-Watermark-Status", "X-Watermark-Key-Id", "X-Watermark-Label",
    "X-Watermark-P-Value", "X-Watermark-Candidates", "X-Watermark-Drawn-Tokens",
    "X-Watermark-Emitted-Tokens", "X-Watermark-Written-Tokens",
)  # fmt: skip
_HTTP_MESSAGES = {
    400: "The body of the request is not JSON.",
    404: "No such path; GET /openapi.json lists the paths.",
    405: "This path does not support the method; GET /openapi.json lists the methods.",
}
EXTRA_REQUESTS = 512
"""How many requests may be in progress beyond the capacity of the queue."""

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_PROBES = ("/healthz", "/readyz")  # called every few seconds
_CLOSE = {"Connection": "close"}  # the rest of the body is not read


def create_app(service: Service, *, loads: bool = True) -> FastAPI:
    """The application of a service, which it closes at shutdown.

    Args:
        service: the service.
        loads: whether it loads the models in the background at start.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.ensure_future(service.load()) if loads else None
        yield
        if loading is not None:
            loading.cancel()
        await service.drain()
        await service.close()

    app = FastAPI(
        title="HammingMark",
        version=__version__,
        summary="A watermarking proxy for language models, and a detector.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load scripts from other hosts
        redoc_url=None,
    )
    app.state.service = service
    app.include_router(marking_router.router)
    app.include_router(responses_router.router)
    app.include_router(detection_router.router)
    _add_operation_routes(app, service)
    add_page_routes(app, service.config)
    if service.upstream is not None:
        other_paths.add_route(app)  # last, because it takes every path
    _add_error_handlers(app)
    app.add_middleware(_RequestMiddleware, service=service)
    if service.config.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.config.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],  # OpenAI's client for browsers sends headers of its own
            expose_headers=_EXPOSED_HEADERS,
        )
    return app


def _add_operation_routes(app: FastAPI, service: Service) -> None:
    @app.get(
        "/healthz",
        tags=["operation"],
        summary="Whether the process is alive",
        response_description="It is alive.",
    )
    async def health() -> dict[str, str]:
        """Answered under any load, and without an API key."""
        return {"status": "alive"}

    @app.get(
        "/readyz",
        tags=["operation"],
        summary="Whether requests can be served",
        response_description="They can.",
        responses={503: {"description": "The service is not ready; `reasons` says why."}},
    )
    async def readiness() -> JSONResponse:
        """Models loaded, audit log writable, API keys readable, not shutting down."""
        problems = service.problems()
        content = {"status": "not ready" if problems else "ready", "reasons": problems}
        return JSONResponse(content, 503 if problems else 200)

    if service.config.metrics:

        @app.get(
            "/metrics",
            tags=["operation"],
            summary="Metrics for Prometheus",
            response_description="The metrics.",
            response_class=PlainTextResponse,
            responses={code: ERRORS[code] for code in (401, 403, 429)},
        )
        async def metrics(
            client: Annotated[Client, Depends(client_with_scope("admin"))],
        ) -> Response:
            """Requests, answers, tokens, latencies and the queue, as text."""
            content, content_type = service.metrics.render()
            return Response(content, media_type=content_type)


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(APIError)
    async def respond(request: Request, error: APIError) -> Response:
        return error.response()

    @app.exception_handler(HammingMarkError)
    async def respond_to_error(request: Request, error: HammingMarkError) -> Response:
        return APIError.from_error(error).response()

    @app.exception_handler(RequestValidationError)
    async def respond_to_invalid_request(
        request: Request, error: RequestValidationError
    ) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return APIError(400, _HTTP_MESSAGES[400]).response()
        if isinstance(error.body, bytes):
            # Browsers send other types across origins without a preflight request.
            message = "The body must be JSON, with the header Content-Type: application/json."
            return APIError(415, message).response()
        param = ".".join(str(part) for part in first["loc"] if part != "body")
        cause = first["ctx"]["error"] if first["type"] == "value_error" else None
        message = str(cause or first["msg"])
        if param:
            message = f"{param}: {message}"
        return APIError(422, message, param=param or None).response()

    @app.exception_handler(HTTPException)
    async def respond_to_http_error(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        if error.status_code == 405 and "Allow" in headers:
            # Of several routes for one path, the framework names the methods of the first.
            headers["Allow"] = ", ".join(_allowed_methods(app.router.routes, request.scope))
        message = _HTTP_MESSAGES.get(error.status_code, str(error.detail))
        return APIError(error.status_code, message).response(headers)


class _RequestMiddleware:
    """Middleware: request id, access, limits on the body, logging, metrics."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service
        self._running = 0
        limits = service.config.limits
        self._bodies = IncomingBodies(
            capacity=(limits.queue + EXTRA_REQUESTS) // 2, timeout=limits.body_timeout
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        start, status = time.perf_counter(), 499
        token = current_request.set(request_id)

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.setdefault("headers", [])
                headers.append((b"x-content-type-options", b"nosniff"))
                if not any(name == b"x-request-id" for name, _ in headers):
                    headers.append((b"x-request-id", request_id.encode()))
            await send(message)

        is_probe = scope["path"] in _PROBES  # always answered: they say how the service is
        self._running += not is_probe
        expected, timeout = ExitStack(), self._service.config.limits.body_timeout
        try:
            try:
                connection = HTTPConnection(scope)
                self._check(connection, is_probe=is_probe)
                if _has_body(scope) and not is_probe:
                    timeout = expected.enter_context(self._bodies.expected(_client_of(connection)))
            except APIError as error:
                headers = _CLOSE if _has_body(scope) else None
                await error.response(headers)(scope, receive, send_with_headers)
            else:
                limited = self._limited(receive, timeout=timeout, on_end=expected.close)
                await self._respond(scope, limited, send_with_headers)
        except Exception:
            _LOG.exception("fault")
            if status != 499:  # the response has begun
                raise
            await APIError.internal().response()(scope, receive, send_with_headers)
        finally:
            expected.close()
            self._running -= not is_probe
            path = scope["path"]
            self._service.metrics.count_request(path, status=status)
            log_event(
                _LOG,
                "request",
                level=logging.DEBUG if is_probe else logging.INFO,
                request_id=request_id,
                method=scope["method"],
                endpoint=path if len(path) <= 100 else path[:100],
                status=status,
                seconds=round(time.perf_counter() - start, 4),
            )
            current_request.reset(token)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request by its method."""
        if scope["method"] == "OPTIONS":
            allowed = _allowed_methods(scope["app"].router.routes, scope)
            if allowed:
                response = Response(status_code=204, headers={"Allow": ", ".join(allowed)})
            else:
                response = APIError(404, _HTTP_MESSAGES[404]).response()
            await response(scope, receive, send)
        elif scope["method"] == "HEAD":
            await self._app({**scope, "method": "GET"}, receive, _without_body(send))
        else:
            await self._app(scope, receive, send)

    def _check(self, connection: HTTPConnection, *, is_probe: bool) -> None:
        """Check the headers of a request, before its body is read.

        Raises:
            APIError: the request is refused.
        """
        if self._running > self._service.config.limits.queue + EXTRA_REQUESTS and not is_probe:
            raise APIError(
                503,
                "The service has too many requests at once; try again later.",
                kind="server_error",
                code="too_many_requests",
                retry_after=1.0,
            )
        check_host(self._service.config, connection.headers.get("host"))
        check_forwarding(self._service.config, connection.headers)
        admit(self._service, connection)
        limit = self._service.config.limits.body_bytes
        if _content_length(connection.scope) > limit:
            raise _body_too_large(limit)

    def _limited(self, receive: Receive, *, timeout: float, on_end: Callable[[], None]) -> Receive:
        """A receive function that limits the size of the body and the time that it takes.

        Args:
            receive: receives the body.
            timeout: seconds for all of it.
            on_end: called when it has arrived.
        """
        limits = self._service.config.limits
        deadline = anyio.current_time() + timeout
        size, complete = 0, False

        async def limited() -> Message:
            nonlocal size, complete
            if complete:  # the next message is the disconnect
                return await receive()
            try:
                with anyio.fail_after(deadline - anyio.current_time()):
                    message = await receive()
            except TimeoutError:
                raise _as_http(_body_timeout(timeout)) from None
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if complete:
                on_end()
            if size > limits.body_bytes:
                raise _as_http(_body_too_large(limits.body_bytes))
            return message

        return limited


def _as_http(error: APIError) -> HTTPException:
    """An error while a body is read, as the only type that FastAPI then passes on."""
    return HTTPException(error.status, error.message, _CLOSE)


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _has_body(scope: Scope) -> bool:
    return any(name == b"transfer-encoding" for name, _ in scope["headers"]) or bool(
        _content_length(scope)
    )


def _client_of(connection: HTTPConnection) -> str:
    """The identity of a client that has been admitted."""
    address = connection.client.host if connection.client else ""
    client: Client = next(iter(connection.state.admitted.values()), Client("", address, None))
    return client.name


def _body_timeout(seconds: float) -> APIError:
    return APIError(408, f"The body of a request must arrive within {seconds:g} seconds.")


def _body_too_large(limit: int) -> APIError:
    return APIError(413, f"The body of a request may have at most {limit:,} bytes.")


def _allowed_methods(routes: Iterable[BaseRoute], scope: Mapping[str, Any]) -> list[str]:
    """The methods that a path supports; empty if there is no such path.

    Args:
        routes: of the application.
        scope: of the request.
    """
    methods = [method for method in _METHODS if _is_supported(method, routes, scope)]
    head = ["HEAD"] if "GET" in methods else []
    return [*methods, *head, "OPTIONS"] if methods else []


def _is_supported(method: str, routes: Iterable[BaseRoute], scope: Mapping[str, Any]) -> bool:
    rewritten = {**scope, "method": method}
    return any(route.matches(dict(rewritten))[0] is Match.FULL for route in routes)


def _without_body(send: Send) -> Send:
    """A send function for the answer to HEAD: the head of that to GET."""
    is_over = False

    async def send_head(message: Message) -> None:
        nonlocal is_over
        if message["type"] != "http.response.body":
            await send(message)
        elif not is_over:
            is_over = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return send_head
