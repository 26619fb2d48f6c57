"""Server-sent events: reading a stream of them, and writing one.

Lines end at line feeds alone, before which a carriage return may stand: httpx's own line reader
would also cut at U+2028 and its kin, which JSON may contain. httpx-sse drops a last ``[DONE]`` that
no blank line follows, refuses other content types, and believes a charset that is not UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

DONE = b"[DONE]"
"""The data of the event with which OpenAI's streams end."""

LONGEST_EVENT = 16 << 20
"""Bytes."""

_END = re.compile(rb"\r?\n\r?\n")
_LONGEST_END = 3  # bytes of the end of an event that may have come before the rest of it


class EventTooLong(Exception):
    """An event has no end within the bytes that it may have."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream.

    Attributes:
        raw: its bytes as they came, with the blank line that ends it.
        complete: whether that line came; False for the last event of some streams.
    """

    raw: bytes
    complete: bool = True

    @property
    def data(self) -> bytes | None:
        """Its data; None for a comment, or an event that has other fields alone."""
        lines = [line[5:].removeprefix(b" ") for line in self._lines() if line.startswith(b"data:")]
        return b"\n".join(lines) if lines else None

    @property
    def is_done(self) -> bool:
        """Whether it ends a stream as OpenAI's streams end."""
        return (self.data or b"").strip() == DONE

    def with_data(self, data: bytes) -> Event:
        """The same event with other data, which is one line."""
        lines = self._lines()
        place = next(i for i, line in enumerate(lines) if line.startswith(b"data:"))
        others = [line for line in lines if not line.startswith(b"data:")]
        others.insert(place, b"data: " + data)
        end = b"\r\n" if b"\r\n" in self.raw else b"\n"
        return Event(end.join(others), self.complete)

    def _lines(self) -> list[bytes]:
        return [line.rstrip(b"\r") for line in self.raw.split(b"\n")]


async def read_events(
    chunks: AsyncIterator[bytes], *, longest: int = LONGEST_EVENT
) -> AsyncIterator[Event]:
    """The events of a stream as they come.

    Args:
        chunks: the stream, cut anywhere.
        longest: bytes of an event.

    Raises:
        EventTooLong: one has no end within these bytes.
    """
    rest = bytearray()
    async for chunk in chunks:
        seen = max(0, len(rest) - _LONGEST_END)  # nothing before it can be an end
        rest += chunk
        begin = 0
        for end in _END.finditer(rest, seen):
            yield Event(bytes(rest[begin : end.end()]))
            begin = end.end()
        del rest[:begin]
        if len(rest) > longest:
            raise EventTooLong
    if rest.strip():
        yield Event(bytes(rest), complete=False)


def format_event(data: Mapping[str, Any]) -> bytes:
    """One event with JSON as its data."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"
