"""One HTTP endpoint that may be busy: when to try again, and how to tell what went wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from hammingmark.errors import EncoderError, InputError

LONGEST_WAIT = 60.0
"""Seconds: no server can make us sleep longer than this between two tries."""

_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_ADVICE = {
    401: "Check the API key.",
    403: "Check the API key and what it may use.",
    404: "Check the base URL and the model's name.",
    413: "Use smaller batches.",
    429: "Wait, use smaller batches, or ask for a higher limit.",
}


class Endpoint:
    """A URL to which JSON is posted, with retries on 429, 5xx, timeouts and lost connections.

    Args:
        url: where to post.
        api_key: sent as a bearer token; taken out of every message.
        timeout: seconds for one request.
        retries: further tries after the first.
        backoff: seconds before the first retry, doubled each time, unless the server says when.
    """

    def __init__(
        self, url: str, *, api_key: str | None, timeout: float, retries: int, backoff: float
    ) -> None:
        # An odd key would be quoted in the error of the HTTP library, so it is refused here.
        if api_key is not None and not re.fullmatch(r"[!-~]+", api_key):
            raise InputError("The API key is empty or has characters that no header can carry.")
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise InputError(f"The base URL cannot be read: {error}.") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InputError("The base URL must begin with http:// or https:// and name a host.")
        self.url = str(parsed.copy_with(userinfo=b"", query=None))
        self._target = parsed
        self._key = api_key
        self._timeout = timeout
        self._retries = retries
        self._backoff = backoff
        self._client: httpx.Client | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"

    def post(self, body: Mapping[str, Any]) -> httpx.Response:
        """Post until it succeeds, fails for good, or the tries are used up.

        Raises:
            EncoderError: with the server's reason and what to do.
        """
        for attempt in range(self._retries + 1):
            wait = min(self._backoff * 2**attempt, LONGEST_WAIT)
            try:
                response = self._open().post(self._target, json=body)
            except (httpx.TransportError, httpx.InvalidURL) as error:
                kind = "timed out" if isinstance(error, httpx.TimeoutException) else "failed"
                problem = f"The connection to {self.url} {kind} ({type(error).__name__})"
                advice = "Check that the server runs and can be reached."
            else:
                if response.is_success:
                    return response
                problem = f"{self.url} answered {response.status_code}: {self._reason(response)}"
                advice = _ADVICE.get(response.status_code, "See what the server says.")
                if response.status_code not in _PASSING:
                    raise EncoderError(f"{problem}. {advice}")
                asked = _retry_after(response)
                wait = wait if asked is None else min(asked, LONGEST_WAIT)
            if attempt < self._retries:
                time.sleep(wait)
        tries = f"after {self._retries + 1} tries" if self._retries else "at the first try"
        # The cause is left out: it holds the request, and the request holds the key.
        raise EncoderError(f"{problem}, {tries}. {advice}")

    def close(self) -> None:
        """Let go of the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _open(self) -> httpx.Client:
        if self._client is None:
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            self._client = httpx.Client(timeout=self._timeout, headers=headers)
        return self._client

    def _reason(self, response: httpx.Response) -> str:
        """The server's own words, short and without the key."""
        try:
            found = response.json()["error"]
            text = found["message"] if isinstance(found, dict) else found
        except (ValueError, KeyError, TypeError):
            text = response.text
        words = " ".join(str(text).split())
        words = words.replace(self._key, "[key]") if self._key else words
        return words[:300].rstrip(".") or response.reason_phrase


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
