"""Server-sent events, wherever their stream is split."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.http.sse import Event, EventTooLong, format_event, read_events

STREAM = (
    b": ping\n\n"
    b'data: {"a": "\xe2\x80\xa8"}\n\n'
    b"event: message\r\nid: 1\r\ndata:two\r\ndata: lines\r\n\r\n"
    b"\n\n"
    b"data: [DONE]"
)
DATA = [None, b'{"a": "\xe2\x80\xa8"}', b"two\nlines", None, b"[DONE]"]


def read(*chunks: bytes, longest: int = 1 << 20) -> list[Event]:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def collect() -> list[Event]:
        return [event async for event in read_events(stream(), longest=longest)]

    return asyncio.run(collect())


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_are_the_same_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    events = read(*(STREAM[a:b] for a, b in pairwise(places)))
    assert b"".join(event.raw for event in events) == STREAM
    assert [event.data for event in events] == DATA
    assert [event.complete for event in events] == [True, True, True, True, False]
    assert [event.is_done for event in events] == [False, False, False, False, True]


def test_an_event_gets_other_data_and_keeps_the_rest() -> None:
    event = Event(b"event: message\r\ndata: two\r\ndata: lines\r\nid: 1\r\n\r\n")
    assert event.with_data(b"{}").raw == b"event: message\r\ndata: {}\r\nid: 1\r\n\r\n"
    assert Event(b"data:x\n\n").with_data(b"{}").raw == b"data: {}\n\n"


def test_an_event_without_an_end_is_not_kept() -> None:
    with pytest.raises(EventTooLong):
        read(b"data: ", *[b"x" * 10] * 10, longest=64)
    assert len(read(*[b"data: x\n\n"] * 100, longest=64)) == 100


def test_an_event_that_is_written_is_read() -> None:
    data = {"text": "a\u2028b\n\n\ud7ff"}
    (event,) = read(format_event(data))
    assert event.data is not None
    assert json.loads(event.data) == data
