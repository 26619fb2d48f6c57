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
from hammingmark.server.detection.queue import Checkpoint, DetectionQueue


class Endless:
    """A text that takes as long as somebody waits for it; it counts its slices."""

    def __init__(self) -> None:
        self.slices = 0
        self.ended = threading.Event()

    def __call__(self, checkpoint: Checkpoint) -> None:
        try:
            while True:
                checkpoint()
                self.slices += 1
        finally:
            self.ended.set()


def begin(
    queue: DetectionQueue,
    work: Callable[[Checkpoint], Any],
    *,
    client: str = "a",
    timeout: float = PATIENCE,
) -> asyncio.Task[Any]:
    return asyncio.ensure_future(queue.run(work, client=client, timeout=timeout))


async def slices(*works: Endless) -> None:
    """Wait until each has got on."""
    before = [work.slices for work in works]
    while not all(work.slices > then for work, then in zip(works, before, strict=True)):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("parallel", [1, 2])
def test_short_ones_are_judged_between_slices_of_long_ones(parallel: int) -> None:
    async def run() -> None:
        queue = DetectionQueue(parallel=parallel, capacity=10)
        long = [Endless(), Endless(), Endless()]
        tasks = [begin(queue, each) for each in long]
        await slices(*long)
        assert await queue.run(lambda checkpoint: 7, client="b", timeout=PATIENCE) == 7
        assert len(queue) == 3
        for task in tasks:
            task.cancel()
        assert len(await asyncio.gather(*tasks, return_exceptions=True)) == 3
        assert len(queue) == 0
        for each in long:
            assert each.ended.wait(PATIENCE)

    asyncio.run(run())


def test_no_more_judge_at_once_than_told() -> None:
    together, most = 0, 0
    lock = threading.Lock()

    def judge(checkpoint: Checkpoint) -> None:
        nonlocal together, most
        for _ in range(20):
            checkpoint()
            with lock:
                together += 1
                most = max(most, together)
            with lock:
                together -= 1

    async def run() -> None:
        queue = DetectionQueue(parallel=2, capacity=40)
        await asyncio.gather(*(begin(queue, judge, client=str(n)) for n in range(20)))
        until(lambda: queue._free == 2)

    asyncio.run(run())
    assert 1 <= most <= 2


def test_what_is_given_up_before_its_turn_never_begins() -> None:
    async def run() -> None:
        queue = DetectionQueue(parallel=1, capacity=10)
        stuck, go_on, begun = threading.Event(), threading.Event(), threading.Event()

        def hold(checkpoint: Checkpoint) -> None:
            stuck.set()
            assert go_on.wait(PATIENCE)

        first = begin(queue, hold)
        while not stuck.is_set():
            await asyncio.sleep(0.001)
        second = begin(queue, lambda checkpoint: begun.set())
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        until(lambda: len(queue._jobs) == 1)  # its thread has gone, though no turn was free
        go_on.set()
        await first
        assert await queue.run(lambda checkpoint: 1, client="a", timeout=PATIENCE) == 1
        assert not begun.is_set()

    asyncio.run(run())


def test_what_takes_too_long_is_given_up() -> None:
    async def run() -> None:
        queue, work = DetectionQueue(parallel=1, capacity=10), Endless()
        with pytest.raises(APIError) as late:
            await queue.run(work, client="a", timeout=0.02)
        assert (late.value.status, late.value.kind) == (504, "timeout")
        assert work.ended.wait(PATIENCE)

    asyncio.run(run())


def test_one_client_may_have_half_of_all_that_wait() -> None:
    async def run() -> None:
        queue = DetectionQueue(parallel=1, capacity=4)
        tasks = []
        for client in ("a", "b"):
            tasks += [begin(queue, Endless(), client=client) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(APIError) as refused:
                await queue.run(Endless(), client=client, timeout=PATIENCE)
            assert (refused.value.status, refused.value.code) == (429, "queue_full")
            assert refused.value.retry_after
        with pytest.raises(APIError):
            await queue.run(Endless(), client="c", timeout=PATIENCE)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        until(lambda: not queue._jobs)
        assert not queue._clients
        assert await queue.run(lambda checkpoint: 1, client="c", timeout=PATIENCE) == 1

    asyncio.run(run())


def test_who_waits_is_told_of_the_end() -> None:
    async def run() -> None:
        queue = DetectionQueue(parallel=1, capacity=10)
        works = [Endless(), Endless()]
        tasks = [begin(queue, work) for work in works]
        await slices(*works)
        queue.interrupt(APIError(503, "The service is stopping."))
        for task in tasks:
            with raises_naming(APIError, "stopping"):
                await task
        for work in works:
            assert work.ended.wait(PATIENCE)

    asyncio.run(run())


def test_an_error_is_that_of_its_request() -> None:
    def wrong(checkpoint: Checkpoint) -> None:
        raise InputError("No.")

    async def run() -> None:
        queue = DetectionQueue(parallel=1, capacity=10)
        with raises_naming(InputError, "No"):
            await queue.run(wrong, client="a", timeout=PATIENCE)
        assert await queue.run(lambda checkpoint: 1, client="a", timeout=PATIENCE) == 1

    asyncio.run(run())
