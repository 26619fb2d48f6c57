"""One HTTP service that may be busy: when to try again, and how to tell what went wrong."""

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

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds: no server can make us sleep longer than this between two tries."""

_LONGEST_REASON = 1 << 16  # bytes of an answer that says what is wrong
_LONGEST_ANSWER = 256 << 20  # bytes of any other

_PASSING = frozenset({408, 409, 425, 429})
_LASTING = frozenset({501, 505})
_ADVICE = {
    401: "Check the API key.",
    403: "Check the API key and what it may use.",
    404: "Check the base URL and the model's name.",
    413: "Send less at once.",
    429: "Wait, send less at once, or ask for a higher limit.",
}
_UNREACHED = "Check that it runs and can be reached."
_jitter = random.SystemRandom()  # the global generator may be somebody's experiment


class Interrupted(Exception):
    """An answer that broke off; raised by a reader to have the whole of it again.

    Attributes:
        reason: in words of this package.
        error: what the server said, if it did.
    """

    def __init__(self, reason: str, *, error: ErrorObject | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


class Refused(Exception):
    """An answer that no further try will better.

    Attributes:
        failure: what it means.
        error: what the server said.
    """

    def __init__(self, failure: Failure, error: ErrorObject) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.error = error


class _AttemptFailed(Exception):
    """What was wrong with one try."""

    def __init__(self, failure: Failure, error: ErrorObject | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.error = error


class Endpoint:
    """A base URL to which JSON is sent, with retries on passing failures; any thread may call.

    Passing are 408, 409, 425, 429, most of 5xx, timeouts and lost connections. Requests are tasks
    of one event loop, which begins with the first and ends with `close`.

    Args:
        base_url: such as ``http://127.0.0.1:8080/v1``; paths are added to it.
        error: what to raise when it cannot be helped.
        api_key: sent as a bearer token; taken out of every message.
        timeout: seconds without a sign of life.
        retries: further tries after the first.
        backoff: seconds before the first retry, at most; doubled each time, unless the server
            says when.
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
            raise InputError(f"retries is {retries}; it cannot be negative.")
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
        """Where a path leads, without anything secret."""
        return self._root.address(path)

    def quote(self, text: str) -> str:
        """Words of the server, on one line, short, without the key and without a full stop."""
        return self._root.quote(text)

    def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Post JSON; the whole answer.

        Raises:
            InferenceError: of the kind asked for, with what went wrong and what to do.
        """
        return self._wait_for(self.stream(path, body, _whole))

    def get(self, path: str) -> httpx.Response:
        """Ask for a document; raises as `post` does."""
        return self._wait_for(self.stream(path, None, _whole, method="GET"))

    async def stream(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        read: Callable[[httpx.Response], Awaitable[T]],
        *,
        method: str = "POST",
        is_final: Callable[[ErrorObject], bool] = lambda error: False,
    ) -> T:
        """Send JSON and read the answer while it comes; a coroutine of `loop`.

        The response is closed as soon as ``read`` returns, finished or not.

        Args:
            path: added to the base URL.
            body: what to send, if anything.
            read: given the open response; called again, with another, if the connection is lost
                or it raises `Interrupted`.
            method: of HTTP.
            is_final: told what the server says, says that trying again is no use although the
                status would allow it.

        Raises:
            Refused: the server does not want this body.
            InferenceError: of the kind asked for, when the tries are used up.
        """
        for attempt in range(self._retries + 1):
            try:
                return await self._try(method, path, body, read)
            except _AttemptFailed as failed:
                failure, error = failed.failure, failed.error
            failure = self._located(failure, path, tries=attempt + 1)
            if error is not None and (not _is_passing(failure) or is_final(error)):
                raise Refused(failure, error)
            if attempt < self._retries:
                wait = retry_wait(attempt, backoff=self._backoff, asked=failure.retry_after)
                await asyncio.sleep(wait)
        # The cause is left out: it holds the request, and the request holds the key.
        raise failure.error()

    def loop(self) -> EventLoopThread:
        """Where requests run, begun anew if it has ended or belongs to another process."""
        with self._own_lock():
            if self._loop is None:
                self._client = self._root.open_client(timeout=self._timeout)
                self._loop = EventLoopThread(self._client)
                # For those who forget to close; an exit needs no tidying.
                self._finalizer = weakref.finalize(self, self._loop.stop)
                self._finalizer.atexit = False
            return self._loop

    def close(self) -> None:
        """Give up on all requests and let go of the connections; a later call opens new ones."""
        with self._own_lock():
            if self._loop is not None:
                self._finalizer.detach()
                self._loop.close()
            self._loop = None

    def _own_lock(self) -> threading.Lock:
        if self._owner != os.getpid():
            # The connections of a process that forked are still its own, and so is its lock.
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
        """One request; whatever is wrong with it is raised as `_AttemptFailed`."""
        try:
            async with self._client.stream(method, self._root.url(path), json=body) as response:
                if response.is_success:
                    return await read(response)
                content = await first_bytes(response, _LONGEST_REASON)
        except Interrupted as broken:
            error = broken.error
            if error is not None and error.status is not None:
                raise self._answered(error.status, error) from None
            summary = f"The answer of {self._server} broke off: {broken.reason}."
            detail = self.quote(error.message) if error else ""
            raise _AttemptFailed(self._failure("unavailable", summary, detail=detail)) from None
        except LOST as lost:
            kind = lost_kind(lost)
            ended = "timed out" if kind == "timeout" else "failed"
            summary = f"The connection to {self._server} {ended} ({type(lost).__name__})."
            raise _AttemptFailed(self._failure(kind, summary, advice=_UNREACHED)) from None
        error = ErrorObject.read(content)
        error = replace(error, message=error.message.strip() or response.reason_phrase)
        raise self._answered(response.status_code, error, wait=retry_after(response))

    def _answered(
        self, status: int, error: ErrorObject, *, wait: float | None = None
    ) -> _AttemptFailed:
        failure = self._failure(
            status_kind(status),
            f"{self._server} answered {status}.",
            status=status,
            retry_after=wait,
            detail=self.quote(error.message),
            advice=_ADVICE.get(status, ""),
        )
        return _AttemptFailed(failure, error)

    def _failure(self, kind: FailureKind, summary: str, **more: Any) -> Failure:
        return Failure(kind, summary[:1].upper() + summary[1:], self._origin, **more)

    def _located(self, failure: Failure, path: str, *, tries: int) -> Failure:
        """A failure that also says where it happened, and after how many tries."""
        times = "once," if tries == 1 else f"{tries} times"
        asked = f"It was asked {times} at {self.url(path)}."
        wait = f"It asks to wait {failure.retry_after:g} s." if failure.retry_after else ""
        return replace(failure, advice=" ".join(filter(None, (failure.advice, asked, wait))))


def retry_wait(attempt: int, *, backoff: float, asked: float | None) -> float:
    """Seconds before another try, random so that those who failed together do not come together.

    Args:
        attempt: how many tries had failed before this one.
        backoff: seconds before the first retry, at most.
        asked: the least that the server asked for, if it did.
    """
    if asked is None:
        return min(backoff * 2.0**attempt, LONGEST_WAIT) * _jitter.uniform(0.5, 1.0)
    return min(asked * _jitter.uniform(1.0, 1.25), LONGEST_WAIT)


async def _whole(response: httpx.Response) -> httpx.Response:
    try:
        content = await read_body(response, most=_LONGEST_ANSWER)
    except BodyTooLarge:
        raise Interrupted("it is too large") from None
    return httpx.Response(response.status_code, content=content)


def _is_passing(failure: Failure) -> bool:
    """Whether another try may better it."""
    status = failure.status
    return status is None or status in _PASSING or (status >= 500 and status not in _LASTING)
