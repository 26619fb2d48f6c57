"""One HTTP service that may be busy: when to try again, and how to tell what went wrong."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import ssl
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from hammingmark.errors import HammingMarkError, InputError
from hammingmark.http.event_loop import EventLoopThread, LoopClosed

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds: no server can make us sleep longer than this between two tries."""

LONGEST_CONNECT = 10.0
"""Seconds: a server that runs takes a connection sooner than this, however busy it is."""

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
_UNREACHED = "Check that the server runs and can be reached."
_jitter = random.SystemRandom()  # the global generator may be somebody's experiment


class Interrupted(Exception):
    """An answer that broke off; raised by a reader to have the whole of it again.

    Attributes:
        status: what an HTTP answer with the same complaint would have had, if the server said.
    """

    def __init__(self, words: str, *, status: int | None = None) -> None:
        super().__init__(words)
        self.status = status


class Refused(Exception):
    """An answer that no further try will better.

    Attributes:
        status: of the HTTP answer.
        reason: the server's own words.
    """

    def __init__(self, message: str, *, status: int, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class _Trouble(Exception):
    """What was wrong with one try."""

    def __init__(
        self,
        problem: str,
        *,
        status: int | None = None,
        reason: str = "",
        advice: str | None = None,
        wait: float | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.status = status
        self.reason = reason
        self.advice = advice or _ADVICE.get(status or 0, "See what the server says.")
        self.wait = wait


class Endpoint:
    """A base URL to which JSON is sent, with retries on passing trouble; any thread may call.

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
        error: type[HammingMarkError],
        api_key: str | None,
        timeout: float,
        retries: int,
        backoff: float,
    ) -> None:
        # An odd key would be quoted in the error of the HTTP library, so it is refused here.
        if api_key is not None and not re.fullmatch(r"[!-~]+", api_key):
            raise InputError("The API key is empty or has characters that no header can carry.")
        if retries < 0:
            raise InputError(f"retries is {retries}; it cannot be negative.")
        try:
            parsed = httpx.URL(base_url)
        except httpx.InvalidURL as wrong:
            raise InputError(f"The base URL cannot be read: {wrong}.") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InputError("The base URL must begin with http:// or https:// and name a host.")
        # The library logs URLs, so a password in one goes into a header instead.
        self._login = (parsed.username, parsed.password) if parsed.userinfo else None
        self._base = parsed.copy_with(userinfo=b"", path=parsed.path.rstrip("/"))
        self._error = error
        self._key = api_key
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
        return str(self._at(path).copy_with(query=None))

    def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Post JSON; the whole answer.

        Raises:
            HammingMarkError: of the kind asked for, with the server's reason and what to do.
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
        is_final: Callable[[str], bool] = lambda reason: False,
    ) -> T:
        """Send JSON and read the answer while it comes; a coroutine of `loop`.

        The response is closed as soon as ``read`` returns, finished or not.

        Args:
            path: added to the base URL.
            body: what to send, if anything.
            read: given the open response; called again, with another, if the connection is lost
                or it raises `Interrupted`.
            method: of HTTP.
            is_final: told the server's reason, says that trying again is no use although the
                status would allow it.

        Raises:
            Refused: the server does not want this body.
            HammingMarkError: of the kind asked for, when the tries are used up.
        """
        for attempt in range(self._retries + 1):
            try:
                return await self._try(method, path, body, read)
            except _Trouble as trouble:
                found = trouble
            if found.status is not None and (
                not _is_passing(found.status) or is_final(found.reason)
            ):
                message = f"{found.problem}. {found.advice}"
                raise Refused(message, status=found.status, reason=found.reason)
            if attempt < self._retries:
                await asyncio.sleep(retry_wait(attempt, backoff=self._backoff, asked=found.wait))
        tries = f"after {self._retries + 1} tries" if self._retries else "at the first try"
        # The cause is left out: it holds the request, and the request holds the key.
        wait = f" It asks to wait {found.wait:g} s." if found.wait else ""
        raise self._error(f"{found.problem}, {tries}. {found.advice}{wait}")

    def tell(self, words: object) -> str:
        """Words from elsewhere, on one line, short, without the key and without an end."""
        line = well_formed(" ".join(str(words).split()))
        line = line.replace(self._key, "[key]") if self._key else line
        return line[:300].rstrip(". ")

    def loop(self) -> EventLoopThread:
        """Where requests run, begun anew if it has ended or belongs to another process."""
        with self._own_lock():
            if self._loop is None:
                headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
                connect = min(self._timeout, LONGEST_CONNECT)
                self._client = httpx.AsyncClient(
                    timeout=httpx.Timeout(self._timeout, connect=connect),
                    limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
                    headers=headers,
                    auth=self._login,
                )
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
            message = str(refused)
        except (CancelledError, LoopClosed):
            message = f"The connection to {self.url()} was closed while it was in use."
        raise self._error(message)

    async def _try(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        read: Callable[[httpx.Response], Awaitable[T]],
    ) -> T:
        """One request; whatever is wrong with it is raised as `_Trouble`."""
        url = self.url(path)
        try:
            async with self._client.stream(method, self._at(path), json=body) as response:
                if response.is_success:
                    return await read(response)
                content = await first_bytes(response, _LONGEST_REASON)
        except Interrupted as broken:
            reason = self.tell(broken)
            said = f"{url} answered {broken.status}" if broken.status else f"{url} broke off"
            raise _Trouble(f"{said}: {reason}", status=broken.status, reason=reason) from None
        # httpx translates the errors of a TLS handshake, but not those of later records.
        except (httpx.TransportError, httpx.DecodingError, ssl.SSLError) as lost:
            kind = "timed out" if isinstance(lost, httpx.TimeoutException) else "failed"
            problem = f"The connection to {url} {kind} ({type(lost).__name__})"
            raise _Trouble(problem, advice=_UNREACHED) from None
        status, reason = response.status_code, self._reason(response, content)
        problem = f"{url} answered {status}: {reason}"
        raise _Trouble(problem, status=status, reason=reason, wait=_retry_after(response))

    def _at(self, path: str) -> httpx.URL:
        return self._base.copy_with(path=self._base.path.rstrip("/") + path)

    def _reason(self, response: httpx.Response, content: bytes) -> str:
        """The server's own words."""
        try:
            text = words_of(json.loads(content)["error"])
        except (ValueError, KeyError, TypeError, RecursionError):
            text = content.decode("utf-8", "replace")
        return self.tell(text) or response.reason_phrase


def words_of(error: Any) -> str:
    """What an ``error`` of an answer says: its message, or whatever stands in its place."""
    return str(error.get("message", error) if isinstance(error, dict) else error)


def well_formed(text: str) -> str:
    """A text with U+FFFD for halves of surrogate pairs, which JSON may hold and UTF-8 may not."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
    content = await first_bytes(response, _LONGEST_ANSWER + 1)
    if len(content) > _LONGEST_ANSWER:
        raise Interrupted("the answer is too large")
    return httpx.Response(response.status_code, content=content)


async def first_bytes(response: httpx.Response, most: int) -> bytes:
    """What a server sends, up to so many bytes; it may never end."""
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) >= most:
            break
    return bytes(content[:most])


def _is_passing(status: int) -> bool:
    return status in _PASSING or (status >= 500 and status not in _LASTING)


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds to wait, if the server said: a number, or a date."""
    given = response.headers.get("retry-after", "")
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(given)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.now(timezone.utc)).total_seconds())
