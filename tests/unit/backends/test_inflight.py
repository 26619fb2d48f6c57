"""The limit on concurrent candidates."""

from __future__ import annotations

import asyncio

import pytest

from hammingmark.backends.inflight import WeightedSemaphore


def test_a_group_that_waits_is_not_overtaken() -> None:
    async def run() -> list[str]:
        semaphore = WeightedSemaphore(3)
        order: list[str] = []

        async def take(name: str, count: int) -> None:
            async with semaphore.take(count):
                order.append(name)
                await asyncio.sleep(0)

        async with semaphore.take(1):
            tasks = [asyncio.create_task(take("group", 3))]
            tasks += [asyncio.create_task(take(f"single {k}", 1)) for k in range(5)]
            for _ in range(20):
                await asyncio.sleep(0)
            assert order == []
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(run()) == ["group", *(f"single {k}" for k in range(5))]


def test_two_groups_do_not_wait_for_each_others_half() -> None:
    async def run() -> None:
        semaphore = WeightedSemaphore(2)

        async def take() -> None:
            async with semaphore.take(2):
                await asyncio.sleep(0)

        async with semaphore.take(2):
            tasks = [asyncio.create_task(take()) for _ in range(3)]
            for _ in range(20):
                await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*tasks), 10)

    asyncio.run(run())


@pytest.mark.parametrize("leaving", [0, 1])
def test_what_is_cancelled_gives_its_room_back(leaving: int) -> None:
    """Whether it waits for its turn or has taken some of its places."""

    async def run() -> None:
        semaphore = WeightedSemaphore(2)

        async def take(count: int) -> None:
            async with semaphore.take(count):
                pass

        async with semaphore.take(1):
            tasks = [asyncio.create_task(take(2)) for _ in range(2)]
            for _ in range(20):
                await asyncio.sleep(0)
            tasks.pop(leaving).cancel()
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        await asyncio.wait_for(take(2), 60)

    asyncio.run(run())
