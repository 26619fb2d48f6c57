"""One HTTP service that may be busy: when to try again, and how to tell what went wrong."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from hammingmark.errors import HammingMarkError, InputError

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds: no server can make us sleep longer than this between two tries."""

LONGEST_CONNECT = 10.0
"""Seconds: a server that runs takes a connection sooner than this, however busy it is."""

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


class Cancelled(Exception):
    """Another thread ended the request."""


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


class CancelToken:
    """One request under way, which another thread may end at any moment."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._socket: socket.socket | None = None

    @property
    def cancelled(self) -> bool:
        """Whether somebody ended it."""
        return self._ended.is_set()

    def cancel(self) -> None:
        """End the request, whatever it waits for: its turn, the first byte or the next one."""
        self._ended.set()
        self._shut()

    def sleep(self, seconds: float) -> None:
        """Wait, unless somebody hangs up."""
        self._ended.wait(seconds)

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Told by the HTTP library what it does; remembers the socket that it opens."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
            if self.cancelled:
                self._shut()

    def _shut(self) -> None:
        # Closing a socket does not wake a thread that reads from it; shutting it down does. The
        # plain socket's method is called because that of a TLS socket drops what the reader uses.
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class Endpoint:
    """A base URL to which JSON is sent, with retries on passing trouble; any thread may call.

    Passing are 408, 409, 425, 429, most of 5xx, timeouts and lost connections.

    Args:
        base_url: such as ``http://127.0.0.1:8080/v1``; paths are added to it.
        error: what to raise when it cannot be helped.
        api_key: sent as a bearer token; taken out of every message.
        timeout: seconds without a sign of life.
        retries: further tries after the first.
        backoff: seconds before the first retry, doubled each time, unless the server says when.
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
        self._client: httpx.Client | None = None
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
        try:
            return self._talk("POST", path, body, _whole)
        except Refused as refused:
            message = str(refused)
        raise self._error(message)

    def get(self, path: str) -> httpx.Response:
        """Ask for a document; raises as `post` does."""
        try:
            return self._talk("GET", path, None, _whole, close=True)
        except Refused as refused:
            message = str(refused)
        raise self._error(message)

    def stream(
        self,
        path: str,
        body: Mapping[str, Any],
        read: Callable[[httpx.Response], T],
        *,
        token: CancelToken,
        is_final: Callable[[str], bool] = lambda reason: False,
    ) -> T:
        """Post JSON and read the answer while it comes.

        The response is closed as soon as ``read`` returns, finished or not.

        Args:
            path: added to the base URL.
            body: what to post.
            read: given the open response; called again, with another, if the connection is lost
                or it raises `Interrupted`.
            token: by which another thread may cancel it.
            is_final: told the server's reason, says that trying again is no use although the
                status would allow it.

        Raises:
            Cancelled: the request was cancelled.
            Refused: the server does not want this body.
            HammingMarkError: of the kind asked for, when the tries are used up.
        """
        return self._talk("POST", path, body, read, token=token, is_final=is_final, close=True)

    def tell(self, words: object) -> str:
        """Words from elsewhere, on one token, short, without the key and without an end."""
        line = " ".join(str(words).split())
        line = line.replace(self._key, "[key]") if self._key else line
        return line[:300].rstrip(". ")

    def close(self) -> None:
        """Let go of the connections; a later call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _talk(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        read: Callable[[httpx.Response], T],
        *,
        token: CancelToken | None = None,
        is_final: Callable[[str], bool] = lambda reason: False,
        close: bool = False,
    ) -> T:
        token = token or CancelToken()
        for attempt in range(self._retries + 1):
            if token.cancelled:
                raise Cancelled
            try:
                return self._try(method, path, body, read, token=token, close=close)
            except _Trouble as trouble:
                found = trouble
            if found.status is not None and (
                not _is_passing(found.status) or is_final(found.reason)
            ):
                message = f"{found.problem}. {found.advice}"
                raise Refused(message, status=found.status, reason=found.reason)
            wait = self._backoff * 2**attempt if found.wait is None else found.wait
            if attempt < self._retries:
                token.sleep(min(wait, LONGEST_WAIT))
        if token.cancelled:
            raise Cancelled
        tries = f"after {self._retries + 1} tries" if self._retries else "at the first try"
        # The cause is left out: it holds the request, and the request holds the key.
        raise self._error(f"{found.problem}, {tries}. {found.advice}")

    def _try(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        read: Callable[[httpx.Response], T],
        *,
        token: CancelToken,
        close: bool,
    ) -> T:
        """One request; whatever is wrong with it is raised as `_Trouble`."""
        url = self.url(path)
        # A connection that is used once is one whose socket the line gets to know.
        headers = {"Connection": "close"} if close else {}
        extensions = {"trace": token.trace}
        try:
            with self._open().stream(
                method, self._at(path), json=body, headers=headers, extensions=extensions
            ) as response:
                if response.is_success:
                    return read(response)
                response.read()
        except Interrupted as broken:
            reason = self.tell(broken)
            said = f"{url} answered {broken.status}" if broken.status else f"{url} broke off"
            raise _Trouble(f"{said}: {reason}", status=broken.status, reason=reason) from None
        except (httpx.TransportError, httpx.DecodingError) as lost:
            kind = "timed out" if isinstance(lost, httpx.TimeoutException) else "failed"
            problem = f"The connection to {url} {kind} ({type(lost).__name__})"
            raise _Trouble(problem, advice=_UNREACHED) from None
        status, reason = response.status_code, self._reason(response)
        problem = f"{url} answered {status}: {reason}"
        raise _Trouble(problem, status=status, reason=reason, wait=_retry_after(response))

    def _at(self, path: str) -> httpx.URL:
        return self._base.copy_with(path=self._base.path.rstrip("/") + path)

    def _open(self) -> httpx.Client:
        if self._owner != os.getpid():
            # The connections of a process that forked are still its own.
            self._owner, self._lock, self._client = os.getpid(), threading.Lock(), None
        with self._lock:
            if self._client is None:
                headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
                connect = min(self._timeout, LONGEST_CONNECT)
                self._client = httpx.Client(
                    timeout=httpx.Timeout(self._timeout, connect=connect),
                    limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
                    headers=headers,
                    auth=self._login,
                )
            return self._client

    def _reason(self, response: httpx.Response) -> str:
        """The server's own words."""
        try:
            text = words_of(response.json()["error"])
        except (ValueError, KeyError, TypeError):
            text = response.text
        return self.tell(text) or response.reason_phrase


def words_of(error: Any) -> str:
    """What an ``error`` of an answer says: its message, or whatever stands in its place."""
    return str(error.get("message", error) if isinstance(error, dict) else error)


def _whole(response: httpx.Response) -> httpx.Response:
    response.read()
    return response


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
