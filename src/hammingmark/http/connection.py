"""What all HTTP clients share: base URLs with credentials, limits, and the errors of servers."""

from __future__ import annotations

import json
import math
import re
import ssl
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from hammingmark.errors import FailureKind, InputError
from hammingmark.text.characters import well_formed

LONGEST_CONNECT = 10.0
"""Seconds: a running server accepts a connection within this time, even if it is busy."""

LOST = (httpx.TransportError, httpx.DecodingError, ssl.SSLError)
"""The exceptions of a failed connection.

httpx translates the errors of a TLS handshake, but not those of later TLS records.
"""

_IDLE_CONNECTIONS = 20  # kept open for later requests
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
    """A response body exceeds the limit."""


class ApiRoot:
    """The base URL of an HTTP API, and the credentials for it.

    Args:
        base_url: such as ``http://127.0.0.1:8080/v1``; may contain a login and a query.
        api_key: sent as a bearer token; removed from every message.

    Raises:
        InputError: the URL or the key cannot be used.
    """

    def __init__(self, base_url: str, *, api_key: str | None) -> None:
        # Checked here, because the HTTP library would quote an invalid key in its error.
        if api_key is not None and not re.fullmatch(r"[!-~]+", api_key):
            raise InputError(
                "The API key is empty or has characters that an HTTP header cannot contain."
            )
        try:
            parsed = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            raise InputError(f"The base URL is invalid: {error}.") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InputError("The base URL must begin with http:// or https:// and contain a host.")
        # The HTTP library logs URLs, so the login is sent in a header instead.
        self._login = (parsed.username, parsed.password) if parsed.userinfo else None
        self._base = parsed.copy_with(userinfo=b"", path=parsed.path.rstrip("/"))
        self._key = api_key

    def url(self, path: str = "") -> httpx.URL:
        """The URL of a path, with the query of the base URL."""
        return self._base.copy_with(path=self._base.path.rstrip("/") + path)

    def address(self, path: str = "") -> str:
        """The URL of a path, without secrets."""
        return str(self.url(path).copy_with(query=None))

    def open_client(self, *, timeout: float) -> httpx.AsyncClient:
        """An HTTP client with the credentials; it keeps no cookies.

        Args:
            timeout: seconds without data from the server.
        """
        return httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=min(timeout, LONGEST_CONNECT)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=_IDLE_CONNECTIONS),
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            auth=self._login,
            # One client serves many users; a cookie that one of them is given is not another's.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )

    def quote(self, text: str) -> str:
        """A message of a server on one line, shortened, without the API key or a full stop."""
        line = well_formed(" ".join(text.split()))
        line = line.replace(self._key, "[key]") if self._key else line
        return line[:300].rstrip(". ")


@dataclass(frozen=True, slots=True)
class ErrorObject:
    """The ``error`` object of a response, as in OpenAI's API.

    Attributes:
        message: the server's message.
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
        """Read the value of the field ``error``, which may be of any type."""
        if not isinstance(error, dict):
            return cls(str(error))
        kind, code, param = (str(error.get(name) or "") for name in ("type", "code", "param"))
        return cls(str(error.get("message", error)), kind, code, param)

    @classmethod
    def read(cls, content: bytes) -> ErrorObject:
        """Read the body of a response, which may also be something other than JSON."""
        try:
            return cls.of(json.loads(content)["error"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls(content.decode("utf-8", "replace"))

    @property
    def status(self) -> int | None:
        """The HTTP status in its code, where servers put it in the middle of a stream."""
        return int(self.code) if re.fullmatch("[45][0-9]{2}", self.code) else None


def status_kind(status: int) -> FailureKind:
    """The kind of failure that a status means."""
    return _KINDS.get(status, "unavailable")


def lost_kind(error: Exception) -> FailureKind:
    """The kind of failure when a connection fails."""
    return "timeout" if isinstance(error, httpx.TimeoutException) else "unavailable"


async def read_body(response: httpx.Response, *, most: int) -> bytes:
    """Read the whole body of a response.

    Args:
        response: open.
        most: the largest number of bytes.

    Raises:
        BodyTooLarge: the body has more.
    """
    content = await first_bytes(response, most + 1)
    if len(content) > most:
        raise BodyTooLarge
    return content


async def first_bytes(response: httpx.Response, most: int) -> bytes:
    """The first ``most`` bytes of a body, which may never end."""
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) >= most:
            break
    return bytes(content[:most])


def retry_after(response: httpx.Response) -> float | None:
    """The wait in seconds that the header ``Retry-After`` sets, as a number or a date."""
    header = response.headers.get("retry-after", "")
    try:
        seconds = float(header)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.now(timezone.utc)).total_seconds())
