"""The detection queue: short texts do not wait for long ones; work nobody waits for ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.errors import raises_naming
from tests.unit.server.harness import PATIENCE, until

from hammingmark.errors import InputError
from hammingmark.server.api_error import APIError
from hammingmark.server.detection.queue import DetectionQueue, Pause


class Endless:
    """A text that takes as long as somebody waits for it; it counts its slices."""

    def __init__(self) -> None:
        self.slices = 0
        self.ended = threading.Event()

    def __call__(self, pause: Pause) -> None:
        try:
            while True:
                pause()
                self.slices += 1
        finally:
            self.ended.set()


def begin(
    judging: DetectionQueue,
    judge: Callable[[Pause], Any],
    *,
    client: str = "a",
    timeout: float = PATIENCE,
) -> asyncio.Task[Any]:
    return asyncio.ensure_future(judging.judge(judge, client=client, timeout=timeout))


async def slices(*works: Endless) -> None:
    """Wait until each has got on."""
    before = [work.slices for work in works]
    while not all(work.slices > then for work, then in zip(works, before, strict=True)):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("at_once", [1, 2])
def test_short_ones_are_judged_between_slices_of_long_ones(at_once: int) -> None:
    async def run() -> None:
        judging = DetectionQueue(at_once=at_once, most=10)
        long = [Endless(), Endless(), Endless()]
        tasks = [begin(judging, each) for each in long]
        await slices(*long)
        assert await judging.judge(lambda pause: 7, client="b", timeout=PATIENCE) == 7
        assert len(judging) == 3
        for task in tasks:
            task.cancel()
        assert len(await asyncio.gather(*tasks, return_exceptions=True)) == 3
        assert len(judging) == 0
        for each in long:
            assert each.ended.wait(PATIENCE)

    asyncio.run(run())


def test_no_more_judge_at_once_than_told() -> None:
    together, most = 0, 0
    lock = threading.Lock()

    def judge(pause: Pause) -> None:
        nonlocal together, most
        for _ in range(20):
            pause()
            with lock:
                together += 1
                most = max(most, together)
            with lock:
                together -= 1

    async def run() -> None:
        judging = DetectionQueue(at_once=2, most=40)
        await asyncio.gather(*(begin(judging, judge, client=str(n)) for n in range(20)))
        until(lambda: judging._free == 2)

    asyncio.run(run())
    assert 1 <= most <= 2


def test_what_is_given_up_before_its_turn_never_begins() -> None:
    async def run() -> None:
        judging = DetectionQueue(at_once=1, most=10)
        stuck, go_on, begun = threading.Event(), threading.Event(), threading.Event()

        def hold(pause: Pause) -> None:
            stuck.set()
            assert go_on.wait(PATIENCE)

        first = begin(judging, hold)
        while not stuck.is_set():
            await asyncio.sleep(0.001)
        second = begin(judging, lambda pause: begun.set())
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        until(lambda: len(judging._under_way) == 1)  # its thread has gone, though no turn was free
        go_on.set()
        await first
        assert await judging.judge(lambda pause: 1, client="a", timeout=PATIENCE) == 1
        assert not begun.is_set()

    asyncio.run(run())


def test_what_takes_too_long_is_given_up() -> None:
    async def run() -> None:
        judging, work = DetectionQueue(at_once=1, most=10), Endless()
        with pytest.raises(APIError) as late:
            await judging.judge(work, client="a", timeout=0.02)
        assert (late.value.status, late.value.kind) == (504, "timeout")
        assert work.ended.wait(PATIENCE)

    asyncio.run(run())


def test_one_client_may_have_half_of_all_that_wait() -> None:
    async def run() -> None:
        judging = DetectionQueue(at_once=1, most=4)
        tasks = []
        for client in ("a", "b"):
            tasks += [begin(judging, Endless(), client=client) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(APIError) as refused:
                await judging.judge(Endless(), client=client, timeout=PATIENCE)
            assert (refused.value.status, refused.value.code) == (429, "queue_full")
            assert refused.value.retry_after
        with pytest.raises(APIError):
            await judging.judge(Endless(), client="c", timeout=PATIENCE)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        until(lambda: not judging._under_way)
        assert not judging._clients
        assert await judging.judge(lambda pause: 1, client="c", timeout=PATIENCE) == 1

    asyncio.run(run())


def test_who_waits_is_told_of_the_end() -> None:
    async def run() -> None:
        judging = DetectionQueue(at_once=1, most=10)
        works = [Endless(), Endless()]
        tasks = [begin(judging, work) for work in works]
        await slices(*works)
        judging.interrupt(APIError(503, "The service is stopping."))
        for task in tasks:
            with raises_naming(APIError, "stopping"):
                await task
        for work in works:
            assert work.ended.wait(PATIENCE)

    asyncio.run(run())


def test_an_error_is_that_of_its_request() -> None:
    def wrong(pause: Pause) -> None:
        raise InputError("No.")

    async def run() -> None:
        judging = DetectionQueue(at_once=1, most=10)
        with raises_naming(InputError, "No"):
            await judging.judge(wrong, client="a", timeout=PATIENCE)
        assert await judging.judge(lambda pause: 1, client="a", timeout=PATIENCE) == 1

    asyncio.run(run())
