"""The table of slots compared with a search over all slots."""

from __future__ import annotations

from random import Random

import pytest

from hammingmark.backends.batching.slots import SlotTable, common, tier


def longest(table: SlotTable, tokens: list[int], used: list[int]) -> tuple[int, int]:
    """The slot that shares the longest beginning: preferably free, and least recently used."""
    ranked = []
    for slot, read in enumerate(table.read):
        known = common(read, tokens) if read[:4] == tokens[:4] else 0
        ranked.append((known, slot not in table.busy, -used[slot], slot))
    return max(ranked)[3], max(ranked)[0]


def vacant(table: SlotTable, source: int, later: set[int], used: list[int]) -> int:
    """The first free slot, by decreasing importance of its properties."""
    return min(
        (slot for slot in range(len(table)) if slot not in table.busy),
        key=lambda slot: (slot in later, tier(slot), slot != source, used[slot]),
    )


@pytest.mark.parametrize("slots", [1, 3, 16, 40])
def test_the_same_slots_are_found_as_by_a_look_at_all(slots: int) -> None:
    rng = Random(slots)
    table, used, clock = SlotTable(slots), [0] * slots, 0
    for _ in range(1500):
        tokens = [rng.randrange(2) for _ in range(rng.randrange(9))]
        if len(table.busy) < slots:
            later = {rng.randrange(slots) for _ in range(rng.randrange(slots + 1))}
            source, known = table.longest(tokens)
            assert (source, known) == longest(table, tokens, used)
            slot = table.vacant(source, later=later)
            assert slot == vacant(table, source, later, used)
            table.take(slot, tokens[:known])
            clock += 1
            used[slot] = clock
            assert table.read[slot] == tokens[:known]
        for slot in sorted(table.busy):
            if rng.random() < 0.3:
                table.leave(slot)
            elif rng.random() < 0.5:
                table.add(slot, tokens[: rng.randrange(3)])


def test_a_common_beginning_ends_where_two_differ_or_one_is_over() -> None:
    assert common([1, 2, 3], [1, 2, 4]) == 2
    assert common([1, 2], [1, 2, 3]) == common([1, 2, 3], [1, 2]) == 2
    assert common([5], [6]) == common([], [6]) == 0
