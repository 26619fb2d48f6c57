"""Server-sent events: reading a stream of them, and writing one.

Lines end only at a line feed, optionally preceded by a carriage return: httpx's own line reader
also splits at U+2028 and similar characters, which JSON may contain. httpx-sse drops a final
``[DONE]`` without a blank line, refuses other content types, and accepts charsets other than UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

DONE = b"[DONE]"
"""The data of the last event of OpenAI's streams."""

LONGEST_EVENT = 16 << 20
"""Bytes."""

_END = re.compile(rb"\r?\n\r?\n")
_LONGEST_END = 3  # bytes of an event's end that may arrive before its last byte


class EventTooLong(Exception):
    """An event is longer than the limit."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream.

    Attributes:
        raw: its bytes as received, with the blank line that ends it.
        complete: whether that line was received; False for the last event of some streams.
    """

    raw: bytes
    complete: bool = True

    @property
    def data(self) -> bytes | None:
        """Its data; None for a comment or an event with other fields only."""
        lines = [line[5:].removeprefix(b" ") for line in self._lines() if line.startswith(b"data:")]
        return b"\n".join(lines) if lines else None

    @property
    def is_done(self) -> bool:
        """Whether it is the last event of one of OpenAI's streams."""
        return (self.data or b"").strip() == DONE

    def with_data(self, data: bytes) -> Event:
        """The event with other data, which must be one line."""
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
    """The events of a stream as they arrive.

    Args:
        chunks: the stream, split at any byte.
        longest: the largest number of bytes of an event.

    Raises:
        EventTooLong: an event has more.
    """
    buffer = bytearray()
    async for chunk in chunks:
        seen = max(0, len(buffer) - _LONGEST_END)  # no event ends before
        buffer += chunk
        begin = 0
        for end in _END.finditer(buffer, seen):
            yield Event(bytes(buffer[begin : end.end()]))
            begin = end.end()
        del buffer[:begin]
        if len(buffer) > longest:
            raise EventTooLong
    if buffer.strip():
        yield Event(bytes(buffer), complete=False)


def format_event(data: Mapping[str, Any]) -> bytes:
    """An event with JSON as its data."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"
