"""An HTTP client for model servers: retries, and errors as failures."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any, TypeVar

import httpx

from hammingmark.errors import Failure, FailureKind, InferenceError, InputError
from hammingmark.http.connection import (
    LOST,
    ApiRoot,
    BodyTooLarge,
    ErrorObject,
    first_bytes,
    lost_kind,
    read_body,
    retry_after,
    status_kind,
)
from hammingmark.http.event_loop import EventLoopThread, LoopClosed
from hammingmark.http.quotations import without_quotations

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds: the longest wait between two attempts, whatever the server asks for."""

_LONGEST_ERROR = 1 << 16  # bytes of a response that reports an error
_LONGEST_BODY = 256 << 20  # bytes of any other response

_TRANSIENT = frozenset({408, 409, 425, 429})
_PERMANENT = frozenset({501, 505})
_ADVICE = {
    401: "Check the API key.",
    403: "Check the API key and what it may use.",
    404: "Check the base URL and the model's name.",
    413: "Send smaller requests.",
    429: "Wait, send fewer requests, or ask for a higher limit.",
}
_UNREACHED = "Check that the server is running and reachable."
_jitter = (
    random.SystemRandom()
)  # does not disturb the global generator, which an experiment may have seeded


class Interrupted(Exception):
    """An incomplete response; a reader raises it to have the request sent again.

    Attributes:
        reason: what was wrong, as the end of a sentence.
        error: the server's error, if it sent one.
    """

    def __init__(self, reason: str, *, error: ErrorObject | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


class Refused(Exception):
    """An error response that a retry would not change.

    Attributes:
        failure: the failure that it stands for.
        error: the server's error.
    """

    def __init__(self, failure: Failure, error: ErrorObject) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.error = error


class _AttemptFailed(Exception):
    """The failure of one attempt."""

    def __init__(self, failure: Failure, error: ErrorObject | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.error = error


class Endpoint:
    """A JSON client for a base URL, with retries after transient failures; thread-safe.

    Transient failures are 408, 409, 425, 429, most of 5xx, timeouts and lost connections. Requests
    are tasks of one event loop, which starts with the first request and ends with `close`.

    Args:
        base_url: such as ``http://127.0.0.1:8080/v1``; paths are added to it.
        error: the type of errors to raise.
        api_key: sent as a bearer token; removed from every message.
        timeout: seconds without data from the server.
        retries: further attempts after the first.
        backoff: seconds before the first retry, at most; doubled each time, unless the server
            sets the wait.
    """

    def __init__(
        self,
        base_url: str,
        *,
        error: type[InferenceError],
        api_key: str | None,
        timeout: float,
        retries: int,
        backoff: float,
    ) -> None:
        if retries < 0:
            raise InputError(f"retries is {retries}; it must be at least 0.")
        self._root = ApiRoot(base_url, api_key=api_key)
        self._origin = error.origin
        self._server = f"the {error.origin}'s server"
        self._timeout = timeout
        self._retries = retries
        self._backoff = backoff
        self._loop: EventLoopThread | None = None
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def __repr__(self) -> str:
        return f"Endpoint({self.url()!r})"

    def url(self, path: str = "") -> str:
        """The URL of a path, without secrets."""
        return self._root.address(path)

    def quote(self, text: str) -> str:
        """A message of the server on one line, shortened, without the API key or a full stop."""
        return self._root.quote(text)

    def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Post JSON and return the whole response.

        Raises:
            InferenceError: of the type given to the constructor.
        """
        return self._wait_for(self.stream(path, body, _read_whole))

    def get(self, path: str) -> httpx.Response:
        """Get a document; raises as `post` does."""
        return self._wait_for(self.stream(path, None, _read_whole, method="GET"))

    async def stream(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        read: Callable[[httpx.Response], Awaitable[T]],
        *,
        method: str = "POST",
        is_final: Callable[[ErrorObject], bool] = lambda error: False,
        on_send: Callable[[], None] = lambda: None,
    ) -> T:
        """Send JSON and read the response as it arrives; a coroutine of `loop`.

        The response is closed as soon as ``read`` returns, finished or not.

        Args:
            path: added to the base URL.
            body: the JSON to send, if any.
            read: called with the open response, and again with a new one if the connection is lost
                or it raises `Interrupted`.
            method: of HTTP.
            is_final: whether an error of the server makes a retry pointless although the status
                would allow one.
            on_send: called before each attempt.

        Raises:
            Refused: the server refuses this body.
            InferenceError: of the type given to the constructor, when all attempts have failed.
        """
        for attempt in range(self._retries + 1):
            on_send()
            try:
                return await self._try(method, path, body, read)
            except _AttemptFailed as failed:
                failure, error = failed.failure, failed.error
            failure = self._with_request(failure, path, attempts=attempt + 1)
            if error is not None and (not _is_transient(failure) or is_final(error)):
                raise Refused(failure, error)
            if attempt < self._retries:
                wait = retry_wait(attempt, backoff=self._backoff, retry_after=failure.retry_after)
                await asyncio.sleep(wait)
        # The cause is not chained: it holds the request, and the request holds the API key.
        raise failure.error()

    def loop(self) -> EventLoopThread:
        """The loop that runs requests; a new one if it was closed or belongs to another process."""
        with self._own_lock():
            if self._loop is None:
                self._client = self._root.open_client(timeout=self._timeout)
                self._loop = EventLoopThread(self._client)
                # In case `close` is never called; not needed when the interpreter exits.
                self._finalizer = weakref.finalize(self, self._loop.stop)
                self._finalizer.atexit = False
            return self._loop

    def close(self) -> None:
        """Cancel all requests and close the connections; a later call opens new ones."""
        with self._own_lock():
            if self._loop is not None:
                self._finalizer.detach()
                self._loop.close()
            self._loop = None

    def _own_lock(self) -> threading.Lock:
        if self._owner != os.getpid():
            # The connections and the lock belong to the process from which this one was forked.
            self._owner, self._lock, self._loop = os.getpid(), threading.Lock(), None
        return self._lock

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self.loop().run(work)
        except Refused as refused:
            failure = refused.failure
        except (CancelledError, LoopClosed):
            summary = f"The connection to {self._server} was closed while it was in use."
            failure = Failure("closed", summary, self._origin)
        raise failure.error()

    async def _try(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        read: Callable[[httpx.Response], Awaitable[T]],
    ) -> T:
        """Send one request; raise every failure as `_AttemptFailed`."""
        try:
            async with self._client.stream(method, self._root.url(path), json=body) as response:
                if response.is_success:
                    return await read(response)
                content = await first_bytes(response, _LONGEST_ERROR)
        except Interrupted as interrupted:
            error = self._quoted(interrupted.error) if interrupted.error else None
            if error is not None and error.status is not None:
                raise self._status_failure(error.status, error, body) from None
            summary = f"The response of {self._server} could not be read: {interrupted.reason}."
            detail = without_quotations(error.message, body) if error else ""
            raise _AttemptFailed(self._failure("unavailable", summary, detail=detail)) from None
        except LOST as lost:
            kind = lost_kind(lost)
            verb = "timed out" if kind == "timeout" else "failed"
            summary = f"The connection to {self._server} {verb} ({type(lost).__name__})."
            raise _AttemptFailed(self._failure(kind, summary, advice=_UNREACHED)) from None
        error = self._quoted(ErrorObject.read(content), default=response.reason_phrase)
        raise self._status_failure(response.status_code, error, body, wait=retry_after(response))

    def _quoted(self, error: ErrorObject, *, default: str = "") -> ErrorObject:
        """The error with a short message: a long one often quotes the request with its fields."""
        return replace(error, message=self.quote(error.message) or default)

    def _status_failure(
        self,
        status: int,
        error: ErrorObject,
        body: Mapping[str, Any] | None,
        *,
        wait: float | None = None,
    ) -> _AttemptFailed:
        failure = self._failure(
            status_kind(status),
            f"{self._server} returned the status {status}.",
            status=status,
            retry_after=wait,
            detail=without_quotations(error.message, body),
            advice=_ADVICE.get(status, ""),
        )
        return _AttemptFailed(failure, error)

    def _failure(self, kind: FailureKind, summary: str, **attributes: Any) -> Failure:
        return Failure(kind, summary[:1].upper() + summary[1:], self._origin, **attributes)

    def _with_request(self, failure: Failure, path: str, *, attempts: int) -> Failure:
        """The failure with the URL, the number of attempts and the server's wait in its advice."""
        times = "once" if attempts == 1 else f"{attempts} times"
        request = f"The request was sent {times} to {self.url(path)}."
        wait = ""
        if failure.retry_after:
            wait = f"The server asks for a wait of {failure.retry_after:g} s."
        return replace(failure, advice=" ".join(filter(None, (failure.advice, request, wait))))


def retry_wait(attempt: int, *, backoff: float, retry_after: float | None) -> float:
    """Seconds before the next attempt, with jitter to spread clients that failed together.

    Args:
        attempt: how many attempts had failed before this one.
        backoff: seconds before the first retry, at most.
        retry_after: the least wait that the server asks for, if any.
    """
    if retry_after is None:
        return min(backoff * 2.0**attempt, LONGEST_WAIT) * _jitter.uniform(0.5, 1.0)
    return min(retry_after * _jitter.uniform(1.0, 1.25), LONGEST_WAIT)


async def _read_whole(response: httpx.Response) -> httpx.Response:
    try:
        content = await read_body(response, most=_LONGEST_BODY)
    except BodyTooLarge:
        raise Interrupted("its body is too large") from None
    return httpx.Response(response.status_code, content=content)


def _is_transient(failure: Failure) -> bool:
    """Whether another attempt may succeed."""
    status = failure.status
    return status is None or status in _TRANSIENT or (status >= 500 and status not in _PERMANENT)
