"""The endpoint that the service stands before, for requests that pass through as they are."""

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

_PASSED = {"retry-after": "Retry-After", "x-request-id": "X-Upstream-Request-Id"}
_LARGEST = 64 << 20  # bytes of an answer that is not streamed


class Exchange:
    """One request that passes through, until its time is up or it is interrupted.

    Args:
        timeout: seconds for all of it.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + timeout
        self._interrupted: asyncio.Future[APIError] = self._loop.create_future()

    def interrupt(self, problem: APIError) -> None:
        """End it with a problem, from its event loop."""
        if not self._interrupted.done():
            self._interrupted.set_result(problem)

    async def with_deadline(self, work: Awaitable[T]) -> T:
        """Wait for a part of it.

        Raises:
            APIError: it was interrupted, or took too long.
        """
        working = asyncio.ensure_future(work)
        awaited: set[asyncio.Future[Any]] = {working, self._interrupted}
        try:
            left = self._end - self._loop.time()
            if left > 0 and not self._interrupted.done():  # or work that is at once done has no end
                await asyncio.wait(awaited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            if self._interrupted.done():
                raise self._interrupted.result()
            raise APIError(504, "The answer took too long; try again later.", kind="timeout")
        finally:
            if not working.done():
                working.cancel()
                # Not by gather: cancelled in turn, it would cancel the work once more, and with
                # that the closing of its connection.
                await asyncio.wait({working})


class Upstream:
    """An OpenAI-compatible endpoint.

    Args:
        url: such as ``http://127.0.0.1:8000/v1``.
        api_key: sent as a bearer token.
        timeout: seconds without a sign of life.
    """

    def __init__(self, url: str, *, api_key: str | None, timeout: float) -> None:
        self._root = ApiRoot(url, api_key=api_key)
        self._client = self._root.open_client(timeout=timeout)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def models(self) -> list[dict[str, Any]]:
        """The models that it offers.

        Raises:
            APIError: it does not say.
        """
        response = await self._send("GET", "/models")
        try:
            content = json.loads(await _read(response))
            found = [each for each in content["data"] if isinstance(each["id"], str)]
            check_json(found)
        except (ValueError, LookupError, TypeError, RecursionError):
            raise _not_openai_compatible() from None
        finally:
            await response.aclose()
        return found

    async def answer(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        told: Mapping[str, Any],
        held: AsyncExitStack,
        exchange: Exchange,
    ) -> Response:
        """What it answers, as it is, and how far it is marked.

        Args:
            path: such as ``/chat/completions``.
            body: the request.
            told: the field ``watermark``.
            held: what to let go of at the end of the answer.
            exchange: how long a stream may take.

        Raises:
            APIError: it does not answer, or not to this service.
        """
        response = await self._send("POST", path, dict(body))
        held.push_async_callback(response.aclose)
        if response.status_code in (401, 403):  # the client's own API key was good
            raise APIError.upstream_unauthorized()
        headers = {"X-Watermark-Status": "unmarked"}
        for name, shown in _PASSED.items():
            if response.headers.get(name, "").isascii() and name in response.headers:
                headers[shown] = response.headers[name]
        kind = response.headers.get("content-type", "")
        if response.is_success and kind.startswith("text/event-stream"):
            events = _relay(response, told, exchange)
            return EventStream(events, headers=headers, limit=exchange.timeout)
        content = await _read(response)
        try:
            answer = json.loads(content) if "json" in kind else None
            check_json(answer)
        except (ValueError, RecursionError):
            raise _not_openai_compatible() from None
        if answer is None and response.status_code in (429, 503):  # a gateway's, in its own words
            problem = APIError(
                response.status_code, "The upstream has too much to do.", kind="upstream_error"
            )
            return problem.response(headers)
        if answer is None or not (response.is_success or response.is_error):
            raise _not_openai_compatible()
        if response.is_success and isinstance(answer, dict):
            answer = {**without_watermark(answer), "watermark": dict(told)}
        return JSONResponse(answer, response.status_code, headers)

    async def _send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        request = self._client.build_request(method, self._root.url(path), json=body)
        try:
            return await self._client.send(request, stream=True)
        except LOST as lost:
            if lost_kind(lost) == "timeout":
                raise APIError(
                    504, "The upstream did not answer in time.", kind="timeout"
                ) from None
            words = f"The upstream cannot be reached ({type(lost).__name__})."
            raise APIError(502, words, kind="upstream_error") from None


async def _read(response: httpx.Response) -> bytes:
    try:
        return await read_body(response, most=_LARGEST)
    except BodyTooLarge:
        raise response_too_large() from None
    except LOST:
        raise response_interrupted() from None


async def _relay(
    response: httpx.Response, told: Mapping[str, Any], exchange: Exchange
) -> AsyncIterator[bytes]:
    events = annotate_events(response.aiter_bytes(), told)
    try:
        while (passed := await exchange.with_deadline(anext(events, None))) is not None:
            yield passed
    except LOST:
        yield format_event(response_interrupted().content)
    except APIError as problem:
        yield format_event(problem.content)


def _not_openai_compatible() -> APIError:
    return APIError(
        502, "The upstream does not answer like an OpenAI-compatible endpoint.",
        kind="upstream_error",
    )  # fmt: skip
