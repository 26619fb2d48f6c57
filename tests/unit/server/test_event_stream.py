"""Streams that say something now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hammingmark.server.event_stream import with_keep_alive


def test_events_come_as_they_are_and_comments_where_none_does() -> None:
    async def listen() -> list[bytes]:
        goes_on = asyncio.Event()

        async def events() -> AsyncIterator[bytes]:
            yield b"data: 1\n\n"
            await goes_on.wait()
            yield b"data: 2\n\n"

        found = []
        async for each in with_keep_alive(events(), interval=0.01):
            found.append(each)
            if len(found) == 4:
                goes_on.set()
        return found

    first, *comments, last = asyncio.run(listen())
    assert (first, last) == (b"data: 1\n\n", b"data: 2\n\n")
    assert len(comments) >= 3
    assert all(each.startswith(b": ") and each.endswith(b"\n\n") for each in comments)


def test_what_goes_wrong_with_an_event_is_raised() -> None:
    async def events() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        raise ValueError("odd")

    async def listen() -> None:
        async for _ in with_keep_alive(events()):
            pass

    with pytest.raises(ValueError, match="odd"):
        asyncio.run(listen())


def test_who_leaves_ends_the_event_that_is_awaited() -> None:
    ended = []

    async def events() -> AsyncIterator[bytes]:
        try:
            await asyncio.Event().wait()
            yield b""
        finally:
            ended.append(True)

    async def listen() -> None:
        stream = with_keep_alive(events(), interval=0.001)
        assert (await anext(stream)).startswith(b": ")
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(listen())
    assert ended == [True]
