"""The application: routes, error handlers, the middleware of every request, the page."""

from __future__ import annotations

import asyncio
import logging
import mimetypes
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files as resources
from typing import Annotated

import anyio
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hammingmark._version import __version__
from hammingmark.errors import HammingMarkError
from hammingmark.server.access import ERRORS, admit, check_host, client_with_scope
from hammingmark.server.api_error import APIError
from hammingmark.server.clients import Client
from hammingmark.server.detection import router as detection_router
from hammingmark.server.logs import log_event
from hammingmark.server.logs import request_id as current_request
from hammingmark.server.marking import router as marking_router
from hammingmark.server.service import Service

_LOG = logging.getLogger("hammingmark.server")
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_EXPOSED_HEADERS = (
    "Retry-After", "X-Request-Id", "X-Watermark-Status", "X-Watermark-Key-Id",
    "X-Watermark-Candidates", "X-Watermark-Drawn-Tokens",
)  # fmt: skip
_HTTP_MESSAGES = {
    400: "The body of the request is not JSON.",
    404: "No such path; GET /openapi.json lists the paths.",
    405: "This path does not support the method; GET /openapi.json lists the methods.",
}
_CLOSE = {"Connection": "close"}  # the rest of the body is not read
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}


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
    app.include_router(detection_router.router)
    _add_operation_routes(app, service)
    if service.config.page:
        _add_page_routes(app)
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
    @app.get("/healthz", tags=["operation"], summary="Whether the process is alive")
    async def health() -> dict[str, str]:
        return {"status": "alive"}

    @app.get(
        "/readyz",
        tags=["operation"],
        summary="Whether requests can be served",
        responses={503: {"description": "The service is not ready; `reasons` says why."}},
    )
    async def readiness() -> JSONResponse:
        problems = service.problems()
        content = {"status": "not ready" if problems else "ready", "reasons": problems}
        return JSONResponse(content, 503 if problems else 200)

    if service.config.metrics:

        @app.get(
            "/metrics",
            tags=["operation"],
            summary="Metrics for Prometheus",
            response_class=PlainTextResponse,
            responses={code: ERRORS[code] for code in (401, 403, 429)},
        )
        async def metrics(
            client: Annotated[Client, Depends(client_with_scope("admin"))],
        ) -> Response:
            content, content_type = service.metrics.render()
            return Response(content, media_type=content_type)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> RedirectResponse:
        return RedirectResponse("openapi.json")


def _add_page_routes(app: FastAPI) -> None:
    folder = resources("hammingmark.server") / "web"
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    def page(name: str) -> Response:
        suffix = name[name.rfind(".") :]
        content_type = _TYPES.get(suffix) or mimetypes.guess_type(name)[0]
        headers = {"Content-Security-Policy": _CONTENT_POLICY, "Cache-Control": "no-cache"}
        return Response(files[name], media_type=content_type, headers=headers)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return page("index.html")

    @app.get("/web/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        if name not in files:
            raise APIError(404, "No such file.")
        return page(name)


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
        message = _HTTP_MESSAGES.get(error.status_code, str(error.detail))
        return APIError(error.status_code, message).response(headers)


class _RequestMiddleware:
    """Middleware: request id, access, limits on the body, logging, metrics."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service

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

        try:
            try:
                self._check(HTTPConnection(scope))
            except APIError as error:
                headers = _CLOSE if _has_body(scope) else None
                await error.response(headers)(scope, receive, send_with_headers)
            else:
                await self._app(scope, self._limited(receive), send_with_headers)
        except Exception:
            _LOG.exception("fault")
            if status != 499:  # the response has begun
                raise
            await APIError.internal().response()(scope, receive, send_with_headers)
        finally:
            path = scope["path"]
            self._service.metrics.count_request(path, status=status)
            log_event(
                _LOG,
                "request",
                request_id=request_id,
                method=scope["method"],
                endpoint=path if len(path) <= 100 else path[:100],
                status=status,
                seconds=round(time.perf_counter() - start, 4),
            )
            current_request.reset(token)

    def _check(self, connection: HTTPConnection) -> None:
        """Check the headers of a request, before its body is read.

        Raises:
            APIError: the request is refused.
        """
        check_host(self._service.config, connection.headers.get("host"))
        admit(self._service, connection)
        limit = self._service.config.limits.body_bytes
        if _content_length(connection.scope) > limit:
            raise _body_too_large(limit)

    def _limited(self, receive: Receive) -> Receive:
        """A receive function that limits the size of the body and the time that it takes."""
        limits = self._service.config.limits
        deadline = anyio.current_time() + limits.body_timeout
        size, complete = 0, False

        async def limited() -> Message:
            nonlocal size, complete
            if complete:  # the next message is the disconnect
                return await receive()
            try:
                with anyio.fail_after(deadline - anyio.current_time()):
                    message = await receive()
            except TimeoutError:
                raise _as_http(_body_timeout(limits.body_timeout)) from None
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
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


def _body_timeout(seconds: float) -> APIError:
    return APIError(408, f"The body of a request must arrive within {seconds:g} seconds.")


def _body_too_large(limit: int) -> APIError:
    return APIError(413, f"The body of a request may have at most {limit:,} bytes.")
