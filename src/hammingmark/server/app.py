"""The application: routes, limits on what comes in, and what every answer carries."""

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
from hammingmark.server.access import ERRORS, admit, check_host, client_of
from hammingmark.server.api_error import APIError
from hammingmark.server.detection import router as detection_router
from hammingmark.server.logs import log_event
from hammingmark.server.logs import request_id as current_request
from hammingmark.server.marking import router as marking_router
from hammingmark.server.service import Client, Service

_LOG = logging.getLogger("hammingmark.server")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_EXPOSED = (
    "Retry-After", "X-Request-Id", "X-Watermark-Status", "X-Watermark-Key-Id",
    "X-Watermark-Candidates", "X-Watermark-Drawn-Tokens",
)  # fmt: skip
_HTTP_WORDS = {
    400: "The body of the request is not JSON.",
    404: "There is nothing at this path; GET /openapi.json lists what there is.",
    405: "This path takes another method; GET /openapi.json lists what there is.",
}
_CLOSE = {"Connection": "close"}  # for those who have not sent all that they announced
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}


def create_app(service: Service, *, loads: bool = True) -> FastAPI:
    """The application around a service, which it closes at its end.

    Args:
        service: what it serves.
        loads: whether it loads the models at once, in the background.
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
        summary="A marking proxy for language models, and a judge of texts.",
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    app.include_router(marking_router.router)
    app.include_router(detection_router.router)
    _add_operation(app, service)
    if service.config.page:
        _add_page(app)
    _add_problems(app)
    app.add_middleware(_RequestMiddleware, service=service)
    if service.config.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.config.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],  # OpenAI's client for browsers sends some of its own
            expose_headers=_EXPOSED,
        )
    return app


def _add_operation(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["operation"], summary="Whether the process lives")
    async def health() -> dict[str, str]:
        return {"status": "alive"}

    @app.get(
        "/readyz",
        tags=["operation"],
        summary="Whether requests can be served",
        responses={503: {"description": "Not yet, or not any more; the reasons say why."}},
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
        async def metrics(client: Annotated[Client, Depends(client_of("admin"))]) -> Response:
            content, kind = service.metrics.render()
            return Response(content, media_type=kind)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> RedirectResponse:
        return RedirectResponse("openapi.json")


def _add_page(app: FastAPI) -> None:
    folder = resources("hammingmark.server") / "web"
    files = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}

    def page(name: str) -> Response:
        suffix = name[name.rfind(".") :]
        kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0]
        headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
        return Response(files[name], media_type=kind, headers=headers)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return page("index.html")

    @app.get("/web/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in files:
            raise APIError(404, "There is no such file.")
        return page(name)


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(APIError)
    async def tell(request: Request, problem: APIError) -> Response:
        return problem.response()

    @app.exception_handler(HammingMarkError)
    async def tell_error(request: Request, error: HammingMarkError) -> Response:
        return APIError.from_error(error).response()

    @app.exception_handler(RequestValidationError)
    async def tell_invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return APIError(400, _HTTP_WORDS[400]).response()
        if isinstance(error.body, bytes):
            # Pages of other origins may send any other type without asking the service first.
            words = "The body must be JSON, with the header Content-Type: application/json."
            return APIError(415, words).response()
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        own = first["ctx"]["error"] if first["type"] == "value_error" else None
        said = str(own or first["msg"])
        words = f"{place}: {said}" if place else said
        return APIError(422, words, param=place or None).response()

    @app.exception_handler(HTTPException)
    async def tell_http(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        words = _HTTP_WORDS.get(error.status_code, str(error.detail))
        return APIError(error.status_code, words).response(headers)


class _RequestMiddleware:
    """Around every request: its id, who may ask, limits on its body, a line in the log, a count."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        began, status = time.perf_counter(), 499
        token = current_request.set(request_id)

        async def counted(message: Message) -> None:
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
            except APIError as problem:
                headers = _CLOSE if _has_body(scope) else None
                await problem.response(headers)(scope, receive, counted)
            else:
                await self._app(scope, self._limited(receive), counted)
        except Exception:
            _LOG.exception("fault")
            if status != 499:  # the answer has begun
                raise
            await APIError.internal().response()(scope, receive, counted)
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
                seconds=round(time.perf_counter() - began, 4),
            )
            current_request.reset(token)

    def _check(self, connection: HTTPConnection) -> None:
        """Look at the headers of a request, before anything of its body is kept.

        Raises:
            APIError: it is refused.
        """
        check_host(self._service.config, connection.headers.get("host"))
        admit(self._service, connection)
        limit = self._service.config.limits.body_bytes
        if _stated_length(connection.scope) > limit:
            raise _too_large(limit)

    def _limited(self, receive: Receive) -> Receive:
        """What reads a body, as far as it may go and in the time that it may take."""
        limits = self._service.config.limits
        until = anyio.current_time() + limits.body_timeout
        size, complete = 0, False

        async def limited() -> Message:
            nonlocal size, complete
            if complete:  # what follows is that the client leaves
                return await receive()
            try:
                with anyio.fail_after(until - anyio.current_time()):
                    message = await receive()
            except TimeoutError:
                raise _as_http(_too_slow(limits.body_timeout)) from None
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if size > limits.body_bytes:
                raise _as_http(_too_large(limits.body_bytes))
            return message

        return limited


def _as_http(problem: APIError) -> HTTPException:
    """A problem with a body; whoever reads it passes on this kind of error alone."""
    return HTTPException(problem.status, problem.message, _CLOSE)


def _stated_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _has_body(scope: Scope) -> bool:
    return any(name == b"transfer-encoding" for name, _ in scope["headers"]) or bool(
        _stated_length(scope)
    )


def _too_slow(seconds: float) -> APIError:
    return APIError(408, f"The body of a request must arrive within {seconds:g} seconds.")


def _too_large(limit: int) -> APIError:
    return APIError(413, f"The body of a request may have {limit:,} bytes at most.")
