"""The page, its files, and the API documentation for people."""

from __future__ import annotations

import re
from importlib.resources import files as resources

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from hammingmark.reports.page import STYLE_HASH
from hammingmark.server.api_error import APIError
from hammingmark.server.config import ServerConfig
from hammingmark.server.reference import reference

_CONTENT_POLICY = (
    # A report, which the page opens as a document of its own, has the style sheet with this hash.
    f"default-src 'none'; script-src 'self'; style-src 'self' '{STYLE_HASH}'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {"Content-Security-Policy": _CONTENT_POLICY, "Cache-Control": "no-cache"}
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}
_HOST = re.compile(r"[\w.\-]+(?::\d+)?|\[[0-9a-fA-F:.]+\](?::\d+)?", re.ASCII)


def add_page_routes(app: FastAPI, config: ServerConfig) -> None:
    """Add the page at ``/``, its files at ``/web/``, and the documentation at ``/docs``.

    Args:
        app: the application.
        config: its settings; without the page, ``/docs`` leads to the OpenAPI document.
    """
    if not config.page:

        @app.get("/docs", include_in_schema=False)
        async def redirect() -> RedirectResponse:
            return RedirectResponse("openapi.json")

        return
    folder = resources("hammingmark.server") / "web"
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    def page(name: str) -> Response:
        content_type = _TYPES[name[name.rfind(".") :]]
        return Response(files[name], media_type=content_type, headers=_HEADERS)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return page("index.html")

    @app.get("/web/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        if name not in files:
            raise APIError(404, "No such file.")
        return page(name)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        content = reference(app.openapi(), config, root=_root(request, config))
        return Response(content, media_type="text/html", headers=_HEADERS)


def _root(request: Request, config: ServerConfig) -> str:
    """The URL of the service as the client sees it, for examples that are copied to a shell."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        host = f"localhost:{config.port}"
    return f"{request.url.scheme}://{host}{request.scope.get('root_path', '').rstrip('/')}"
