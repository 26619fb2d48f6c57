"""The upstream endpoint, for pass-through requests."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from fastapi.responses import JSONResponse, Response

from hammingmark.http.connection import (
    LOST,
    ApiRoot,
    BodyTooLarge,
    ErrorObject,
    lost_kind,
    read_body,
    retry_after,
)
from hammingmark.http.sse import format_event
from hammingmark.server.api_error import APIError
from hammingmark.server.event_stream import EventStream
from hammingmark.server.passthrough import (
    annotate_events,
    error_in,
    replace_errors,
    response_interrupted,
    response_too_large,
    without_watermark,
)
from hammingmark.server.plain_json import check_json
from hammingmark.server.upstream_errors import UpstreamErrors

T = TypeVar("T")

_PASSED_HEADERS = {"retry-after": "Retry-After", "x-request-id": "X-Upstream-Request-Id"}
_NO_SUCH_PATH = frozenset({404, 405, 501})
_PLAIN_PATH = re.compile(r"[\w.@:+-]{1,100}(?:/[\w.@:+-]{1,100}){0,7}", re.ASCII)
_MAX_BODY = 64 << 20  # bytes of a response that is not streamed


def is_plain_path(path: str) -> bool:
    """Whether every server reads a path alike."""
    return bool(_PLAIN_PATH.fullmatch(path)) and not {".", ".."} & set(path.split("/"))


class ModelsUnlisted(APIError):
    """The upstream does not list its models.

    Args:
        error: the same, as an error for clients.
    """

    def __init__(self, error: APIError) -> None:
        super().__init__(error.status, error.message, kind=error.kind)


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


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A request that the upstream gets as it is, but for credentials.

    Attributes:
        method: GET or POST.
        path: the path below the URL of the upstream.
        query: its query; the upstream's own parameters override it.
        content: the body.
        content_type: of the body; may be empty.
        accept: the header of this name.
        body: the body as data, if it is JSON.
    """

    method: str
    path: str
    query: str
    content: bytes
    content_type: str
    accept: str
    body: Any = None


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
            ModelsUnlisted: the endpoint does not list them.
            APIError: it cannot be reached.
        """
        response = await self._send("GET", "/models")
        try:
            if response.is_error:
                raise _no_models(response.status_code)
            content = json.loads(await _read(response))
            models = [model for model in content["data"] if isinstance(model["id"], str)]
            check_json(models)
        except (ValueError, LookupError, TypeError, RecursionError):
            raise ModelsUnlisted(_not_openai_compatible()) from None
        finally:
            await response.aclose()
        return models

    async def model(self, name: str) -> dict[str, Any] | None:
        """The description of one model; None if the endpoint does not give it.

        Args:
            name: its name; one with characters that mean something in a URL is not asked for.

        Raises:
            APIError: the endpoint cannot be reached.
        """
        if not is_plain_path(name):
            return None
        response = await self._send("GET", f"/models/{name}")
        try:
            model = json.loads(await _read(response)) if response.is_success else None
            check_json(model)
        except (ValueError, RecursionError):
            return None
        finally:
            await response.aclose()
        return model if isinstance(model, dict) and model.get("id") == name else None

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
        errors = UpstreamErrors(self._root, body)
        headers = {"X-Watermark-Status": "unmarked", **_passed_headers(response)}
        content_type = response.headers.get("content-type", "")
        if response.is_success and content_type.startswith("text/event-stream"):
            chunks = annotate_events(response.aiter_bytes(), watermark, errors)
            events = _relay(chunks, exchange)
            return EventStream(events, headers=headers, limit=exchange.timeout)
        content = await _read(response)
        try:
            answer = json.loads(content) if "json" in content_type else None
            check_json(answer)
        except (ValueError, RecursionError):
            raise _not_openai_compatible() from None
        is_gateway_error = response.status_code in (401, 403, 429, 503)  # which may not be JSON
        if response.is_error and (answer is not None or is_gateway_error):
            error = ErrorObject.read(content)
            wait = retry_after(response)
            raise errors.of_response(response.status_code, error, retry_after=wait)
        if answer is None or not response.is_success:
            raise _not_openai_compatible()
        if (reported := errors.of_answer(answer)) is not None:
            raise reported
        if isinstance(answer, dict):
            answer = {**without_watermark(answer), "watermark": dict(watermark)}
        return JSONResponse(answer, response.status_code, headers)

    async def forward(
        self, forwarded: Forwarded, *, stack: AsyncExitStack, exchange: Exchange
    ) -> Response:
        """The upstream's response to a request for another path, as it is but for its errors.

        Args:
            forwarded: the request.
            stack: closes the response at the end.
            exchange: the exchange that limits the time of a stream.

        Raises:
            APIError: the upstream cannot be reached, or refuses the request or this service.
        """
        url = self._root.url(forwarded.path)
        if forwarded.query:
            url = url.copy_with(params=httpx.QueryParams(forwarded.query).merge(url.params))
        headers = {"Accept": forwarded.accept}
        if forwarded.content_type:
            headers["Content-Type"] = forwarded.content_type
        response = await self._sent(
            self._client.build_request(
                forwarded.method, url, content=forwarded.content, headers=headers
            )
        )
        stack.push_async_callback(response.aclose)
        errors = UpstreamErrors(self._root, _as_body(forwarded))
        headers = _passed_headers(response)
        content_type = response.headers.get("content-type", "")
        if response.is_success and content_type.startswith("text/event-stream"):
            events = _relay(replace_errors(response.aiter_bytes(), errors), exchange)
            return EventStream(events, headers=headers, limit=exchange.timeout)
        content = await _read(response)
        if response.status_code in _NO_SUCH_PATH:
            raise APIError(404, "The upstream has no such path, or no such model.")
        if response.is_error:
            error = ErrorObject.read(content)
            wait = retry_after(response)
            raise errors.of_response(response.status_code, error, retry_after=wait)
        if not response.is_success:
            raise _not_openai_compatible()
        if (reported := error_in(content, errors)) is not None:
            raise reported
        if content_type.isascii() and content_type:
            headers["Content-Type"] = content_type
        return Response(content, response.status_code, headers)

    async def _send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self._sent(self._client.build_request(method, self._root.url(path), json=body))

    async def _sent(self, request: httpx.Request) -> httpx.Response:
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


async def _relay(events: AsyncIterator[bytes], exchange: Exchange) -> AsyncIterator[bytes]:
    try:
        while (event := await exchange.with_deadline(anext(events, None))) is not None:
            yield event
    except LOST:
        yield format_event(response_interrupted().content)
    except APIError as error:
        yield format_event(error.content)


def _passed_headers(response: httpx.Response) -> dict[str, str]:
    """The headers of a response that clients get, by the names that they get."""
    return {
        new_name: value
        for name, new_name in _PASSED_HEADERS.items()
        if (value := response.headers.get(name)) is not None and value.isascii()
    }


def _as_body(forwarded: Forwarded) -> Mapping[str, Any]:
    """The body of a request, with all that an error may quote."""
    if isinstance(forwarded.body, dict):
        return forwarded.body
    text = forwarded.content.decode("utf-8", "replace") if forwarded.body is None else ""
    return {"input": forwarded.body or text}


def _no_models(status: int) -> ModelsUnlisted:
    if status in (401, 403):
        return ModelsUnlisted(APIError.upstream_unauthorized())
    message = f"The upstream does not list its models: it returned the status {status}."
    return ModelsUnlisted(APIError(502, message, kind="upstream_error"))


def _not_openai_compatible() -> APIError:
    return APIError(
        502, "The response of the upstream is not that of an OpenAI-compatible endpoint.",
        kind="upstream_error",
    )  # fmt: skip
