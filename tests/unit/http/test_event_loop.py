"""The event loop in a thread: what it runs, and how it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager

import pytest
from tests.forking import in_a_fork

from hammingmark.http.event_loop import EventLoopThread, LoopClosed


@asynccontextmanager
async def resource(events: list[str]) -> AsyncIterator[None]:
    events.append("entered")
    yield
    events.append("left")


async def sleep(events: list[str], started: Callable[[], None]) -> None:
    started()
    try:
        await asyncio.sleep(600)
    finally:
        await asyncio.sleep(0)
        events.append("cancelled")


async def fail() -> None:
    raise ZeroDivisionError


def test_what_a_coroutine_returns_or_raises_reaches_the_caller() -> None:
    loop = EventLoopThread(resource([]))
    assert loop.run(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(ZeroDivisionError):
        loop.run(fail())
    loop.close()


def test_an_interrupt_cancels_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    started, ended = threading.Event(), threading.Event()

    async def sleep_on() -> None:
        started.set()
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    def interrupted(future: Future[None]) -> None:
        started.wait(60)
        raise KeyboardInterrupt

    loop = EventLoopThread(resource([]))
    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.run(sleep_on())
    assert ended.wait(20)
    loop.close()


def test_closing_cancels_tasks_before_the_client_is_left() -> None:
    events: list[str] = []
    started = threading.Event()
    before = set(threading.enumerate())
    loop = EventLoopThread(resource(events))
    (thread,) = set(threading.enumerate()) - before
    assert thread.daemon
    future = loop.start(sleep(events, started.set))
    unbegun = [loop.start(asyncio.sleep(600)) for _ in range(3)]
    assert started.wait(60)
    loop.close()
    loop.close()
    assert not thread.is_alive()
    assert events == ["entered", "cancelled", "left"]
    for each in (future, *unbegun):
        with pytest.raises(CancelledError):
            each.result()
    with pytest.raises(LoopClosed):
        loop.run(fail())


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_no_such_loop() -> None:
    loop = EventLoopThread(resource([]))

    def use() -> str:
        try:
            loop.run(fail())
        finally:
            loop.close()
        return "ran"

    assert in_a_fork(use).startswith("LoopClosed")
    assert loop.run(asyncio.sleep(0, "alive")) == "alive"
    loop.close()
