"""What all HTTP clients share: base URLs with credentials, limits, and what servers complain of."""

from __future__ import annotations

import json
import re
import ssl
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from hammingmark.errors import FailureKind, InputError

LONGEST_CONNECT = 10.0
"""Seconds: a server that runs takes a connection sooner than this, however busy it is."""

LOST = (httpx.TransportError, httpx.DecodingError, ssl.SSLError)
"""What is raised where a connection fails.

httpx translates the errors of a TLS handshake, but not those of later records.
"""

_KEPT_CONNECTIONS = 20  # that wait for another request
_KINDS: dict[int, FailureKind] = {
    400: "invalid_request",
    401: "unauthorized",
    403: "unauthorized",
    404: "not_found",
    408: "timeout",
    413: "invalid_request",
    422: "invalid_request",
    429: "rate_limited",
    504: "timeout",
}


class BodyTooLarge(Exception):
    """An answer has more bytes than anybody wants to read."""


class ApiRoot:
    """The base URL of an HTTP API, and the credentials for it.

    Args:
        base_url: such as ``http://127.0.0.1:8080/v1``; it may have a login and a query.
        api_key: sent as a bearer token; taken out of every message.

    Raises:
        InputError: the URL or the key cannot be used.
    """

    def __init__(self, base_url: str, *, api_key: str | None) -> None:
        # An odd key would be quoted in the error of the HTTP library, so it is refused here.
        if api_key is not None and not re.fullmatch(r"[!-~]+", api_key):
            raise InputError("The API key is empty or has characters that no header can carry.")
        try:
            parsed = httpx.URL(base_url)
        except httpx.InvalidURL as wrong:
            raise InputError(f"The base URL cannot be read: {wrong}.") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InputError("The base URL must begin with http:// or https:// and name a host.")
        # The library logs URLs, so a password in one goes into a header instead.
        self._login = (parsed.username, parsed.password) if parsed.userinfo else None
        self._base = parsed.copy_with(userinfo=b"", path=parsed.path.rstrip("/"))
        self._key = api_key

    def url(self, path: str = "") -> httpx.URL:
        """Where a request goes, with the query of the base URL."""
        return self._base.copy_with(path=self._base.path.rstrip("/") + path)

    def address(self, path: str = "") -> str:
        """Where a path leads, without anything secret."""
        return str(self.url(path).copy_with(query=None))

    def open_client(self, *, timeout: float) -> httpx.AsyncClient:
        """A client with the credentials.

        Args:
            timeout: seconds without a sign of life.
        """
        return httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=min(timeout, LONGEST_CONNECT)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT_CONNECTIONS),
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            auth=self._login,
        )

    def quote(self, text: str) -> str:
        """Words from elsewhere, on one line, short, without the key and without a full stop."""
        line = well_formed(" ".join(text.split()))
        line = line.replace(self._key, "[key]") if self._key else line
        return line[:300].rstrip(". ")


@dataclass(frozen=True, slots=True)
class ErrorObject:
    """The ``error`` of an answer, as OpenAI's API has it.

    Attributes:
        message: the server's own words.
        kind: its ``type``; empty if it has none.
        code: its ``code``; empty if it has none.
        param: the field of the request that it names; empty if it names none.
    """

    message: str
    kind: str = ""
    code: str = ""
    param: str = ""

    @classmethod
    def of(cls, error: Any) -> ErrorObject:
        """What stands in the field ``error``, whatever that is."""
        if not isinstance(error, dict):
            return cls(str(error))
        kind, code, param = (str(error.get(name) or "") for name in ("type", "code", "param"))
        return cls(str(error.get("message", error)), kind, code, param)

    @classmethod
    def read(cls, content: bytes) -> ErrorObject:
        """That of the body of an answer, which may also be something else than JSON."""
        try:
            return cls.of(json.loads(content)["error"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls(content.decode("utf-8", "replace"))

    @property
    def status(self) -> int | None:
        """The HTTP status that stands in its code, as in the middle of a stream."""
        return int(self.code) if re.fullmatch("[45][0-9]{2}", self.code) else None


def status_kind(status: int) -> FailureKind:
    """What the status of an answer means."""
    return _KINDS.get(status, "unavailable")


def lost_kind(error: Exception) -> FailureKind:
    """What it means that no answer came, or not the whole of it."""
    return "timeout" if isinstance(error, httpx.TimeoutException) else "unavailable"


async def read_body(response: httpx.Response, *, most: int) -> bytes:
    """The whole body of an answer.

    Args:
        response: open.
        most: bytes that it may have.

    Raises:
        BodyTooLarge: it has more.
    """
    content = await first_bytes(response, most + 1)
    if len(content) > most:
        raise BodyTooLarge
    return content


async def first_bytes(response: httpx.Response, most: int) -> bytes:
    """What a server sends, up to so many bytes; it may never end."""
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) >= most:
            break
    return bytes(content[:most])


def retry_after(response: httpx.Response) -> float | None:
    """Seconds to wait, if the server said: a number, or a date."""
    header = response.headers.get("retry-after", "")
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.now(timezone.utc)).total_seconds())


def well_formed(text: str) -> str:
    """A text with U+FFFD for halves of surrogate pairs, which JSON may hold and UTF-8 may not."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
