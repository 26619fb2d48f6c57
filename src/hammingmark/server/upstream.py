"""The endpoint that the service stands before, for requests that pass through as they are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import httpx
from fastapi.responses import JSONResponse, Response

from hammingmark.server.event_stream import EventStream
from hammingmark.server.problems import Problem

_PASSED = {"retry-after": "Retry-After", "x-request-id": "X-Upstream-Request-Id"}
_LARGEST = 64 << 20  # bytes of an answer that is not streamed


class Upstream:
    """An OpenAI-compatible endpoint.

    Args:
        url: such as ``http://127.0.0.1:8000/v1``.
        api_key: sent as a bearer token.
        timeout: seconds without a sign of life.
    """

    def __init__(self, url: str, *, api_key: str | None, timeout: float) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.AsyncClient(
            base_url=url.rstrip("/") + "/",
            headers=headers,
            timeout=httpx.Timeout(timeout, connect=min(10.0, timeout)),
            limits=httpx.Limits(max_connections=None),
        )

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def models(self) -> list[dict[str, Any]]:
        """The models that it offers.

        Raises:
            Problem: it does not say.
        """
        response = await self._send(self._client.build_request("GET", "models"))
        try:
            content = json.loads(await response.aread())
            found = [each for each in content["data"] if isinstance(each["id"], str)]
        except (httpx.HTTPError, ValueError, LookupError, TypeError):
            raise _stranger() from None
        finally:
            await response.aclose()
        return found

    async def answer(
        self, path: str, body: Mapping[str, Any], *, told: Mapping[str, Any], held: AsyncExitStack
    ) -> Response:
        """What it answers, as it is; a JSON object also says how far it is marked.

        Args:
            path: such as ``chat/completions``.
            body: the request.
            told: the field ``watermark``.
            held: what to let go of at the end of the answer.

        Raises:
            Problem: it does not answer, or not to this service.
        """
        request = self._client.build_request("POST", path, json=dict(body))
        response = await self._send(request)
        held.push_async_callback(response.aclose)
        if response.status_code == 401:  # the client's own API key was good, and it needs no other
            raise Problem(
                502, "The upstream refuses the API key of this service.", kind="upstream_error"
            )
        headers = {"X-Watermark-Status": "unmarked"}
        for name, shown in _PASSED.items():
            if name in response.headers:
                headers[shown] = response.headers[name]
        kind = response.headers.get("content-type", "")
        if "json" not in kind:
            return EventStream(
                _relay(response),
                held.pop_all(),
                headers=headers,
                status=response.status_code,
                kind=kind or None,
            )
        content = await _read(response)
        try:
            answer = json.loads(content)
        except ValueError:
            raise _stranger() from None
        if response.is_success and isinstance(answer, dict):
            answer["watermark"] = dict(told)
        return JSONResponse(answer, response.status_code, headers)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._client.send(request, stream=True)
        except httpx.TimeoutException:
            raise Problem(504, "The upstream did not answer in time.", kind="timeout") from None
        except httpx.HTTPError as error:
            words = type(error).__name__
            raise Problem(
                502, f"The upstream cannot be reached ({words}).", kind="upstream_error"
            ) from None


async def _read(response: httpx.Response) -> bytes:
    content = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > _LARGEST:
                raise Problem(502, "The upstream's answer is too large.", kind="upstream_error")
    except httpx.HTTPError:
        raise Problem(502, "The upstream broke off its answer.", kind="upstream_error") from None
    return bytes(content)


async def _relay(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_bytes():
            yield chunk
    except httpx.HTTPError:
        problem = Problem(502, "The upstream broke off its answer.", kind="upstream_error")
        yield b"\n\ndata: " + json.dumps(problem.content).encode() + b"\n\n"


def _stranger() -> Problem:
    return Problem(
        502, "The upstream does not answer like an OpenAI-compatible endpoint.",
        kind="upstream_error",
    )  # fmt: skip
