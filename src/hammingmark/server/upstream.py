"""The upstream endpoint, for pass-through requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import httpx
from fastapi.responses import JSONResponse, Response

from hammingmark.http.connection import LOST, ApiRoot, BodyTooLarge, lost_kind, read_body
from hammingmark.http.sse import format_event
from hammingmark.server.api_error import APIError
from hammingmark.server.event_stream import EventStream
from hammingmark.server.passthrough import (
    annotate_events,
    response_interrupted,
    response_too_large,
    without_watermark,
)
from hammingmark.server.plain_json import check_json

T = TypeVar("T")

_PASSED_HEADERS = {"retry-after": "Retry-After", "x-request-id": "X-Upstream-Request-Id"}
_MAX_BODY = 64 << 20  # bytes of a response that is not streamed


class Exchange:
    """The exchange of one pass-through request, with a time limit; it can be interrupted.

    Args:
        timeout: seconds for the whole exchange.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + timeout
        self._interrupted: asyncio.Future[APIError] = self._loop.create_future()

    def interrupt(self, error: APIError) -> None:
        """End it with an error; call it in its event loop."""
        if not self._interrupted.done():
            self._interrupted.set_result(error)

    async def with_deadline(self, work: Awaitable[T]) -> T:
        """Await a part of the exchange.

        Raises:
            APIError: the exchange was interrupted or timed out.
        """
        task = asyncio.ensure_future(work)
        futures: set[asyncio.Future[Any]] = {task, self._interrupted}
        try:
            seconds = self._deadline - self._loop.time()
            # Work that never waits, such as buffered events, must end at the deadline as well.
            if seconds > 0 and not self._interrupted.done():
                await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if self._interrupted.done():
                raise self._interrupted.result()
            raise APIError(504, "The request timed out; try again later.", kind="timeout")
        finally:
            if not task.done():
                task.cancel()
                # Not gather: if it is cancelled, it cancels the task a second time, while the
                # task closes its connection.
                await asyncio.wait({task})


class Upstream:
    """An OpenAI-compatible endpoint.

    Args:
        url: its URL, such as ``http://127.0.0.1:8000/v1``.
        model: the default model; empty for its only model, which `find_default_model` finds.
        api_key: sent as a bearer token.
        timeout: seconds without a response before a request fails.

    Attributes:
        default_model: the model of requests that name none; empty if the endpoint has several
            models, None while they are unknown.
    """

    def __init__(self, url: str, *, model: str = "", api_key: str | None, timeout: float) -> None:
        self.default_model = model or None
        self._root = ApiRoot(url, api_key=api_key)
        self._client = self._root.open_client(timeout=timeout)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def models(self) -> list[dict[str, Any]]:
        """The models of the endpoint.

        Raises:
            APIError: the endpoint does not list them.
        """
        response = await self._send("GET", "/models")
        try:
            content = json.loads(await _read(response))
            models = [model for model in content["data"] if isinstance(model["id"], str)]
            check_json(models)
        except (ValueError, LookupError, TypeError, RecursionError):
            raise _not_openai_compatible() from None
        finally:
            await response.aclose()
        return models

    async def find_default_model(self) -> None:
        """Ask the endpoint for its models, unless a default model is set.

        Raises:
            APIError: the endpoint does not list them.
        """
        if self.default_model is None:
            names = [str(model["id"]) for model in await self.models()]
            self.default_model = names[0] if len(names) == 1 else ""

    async def answer(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        watermark: Mapping[str, Any],
        stack: AsyncExitStack,
        exchange: Exchange,
    ) -> Response:
        """The upstream's response to a request, with the field ``watermark``.

        Args:
            path: the path below the URL, such as ``/chat/completions``.
            body: the body of the request.
            watermark: the field ``watermark``.
            stack: closes the response at the end.
            exchange: the exchange that limits the time of a stream.

        Raises:
            APIError: the upstream cannot be reached, or refuses this service.
        """
        response = await self._send("POST", path, dict(body))
        stack.push_async_callback(response.aclose)
        if response.status_code in (401, 403):  # the client's own API key is valid
            raise APIError.upstream_unauthorized()
        headers = {"X-Watermark-Status": "unmarked"}
        for name, new_name in _PASSED_HEADERS.items():
            if response.headers.get(name, "").isascii() and name in response.headers:
                headers[new_name] = response.headers[name]
        content_type = response.headers.get("content-type", "")
        if response.is_success and content_type.startswith("text/event-stream"):
            events = _relay(response, watermark, exchange)
            return EventStream(events, headers=headers, limit=exchange.timeout)
        content = await _read(response)
        try:
            answer = json.loads(content) if "json" in content_type else None
            check_json(answer)
        except (ValueError, RecursionError):
            raise _not_openai_compatible() from None
        if answer is None and response.status_code in (429, 503):  # of a gateway, not JSON
            error = APIError(
                response.status_code, "The upstream is overloaded.", kind="upstream_error"
            )
            return error.response(headers)
        if answer is None or not (response.is_success or response.is_error):
            raise _not_openai_compatible()
        if response.is_success and isinstance(answer, dict):
            answer = {**without_watermark(answer), "watermark": dict(watermark)}
        return JSONResponse(answer, response.status_code, headers)

    async def _send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        request = self._client.build_request(method, self._root.url(path), json=body)
        try:
            return await self._client.send(request, stream=True)
        except LOST as error:
            if lost_kind(error) == "timeout":
                raise APIError(
                    504, "The upstream did not respond in time.", kind="timeout"
                ) from None
            message = f"The upstream cannot be reached ({type(error).__name__})."
            raise APIError(502, message, kind="upstream_error") from None


async def _read(response: httpx.Response) -> bytes:
    try:
        return await read_body(response, most=_MAX_BODY)
    except BodyTooLarge:
        raise response_too_large() from None
    except LOST:
        raise response_interrupted() from None


async def _relay(
    response: httpx.Response, watermark: Mapping[str, Any], exchange: Exchange
) -> AsyncIterator[bytes]:
    events = annotate_events(response.aiter_bytes(), watermark)
    try:
        while (event := await exchange.with_deadline(anext(events, None))) is not None:
            yield event
    except LOST:
        yield format_event(response_interrupted().content)
    except APIError as error:
        yield format_event(error.content)


def _not_openai_compatible() -> APIError:
    return APIError(
        502, "The response of the upstream is not that of an OpenAI-compatible endpoint.",
        kind="upstream_error",
    )  # fmt: skip
