"""The slots of a batch engine: which are idle, and which tokens each has read."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Sequence
from itertools import compress, count

_HEAD = 4  # tokens; a shorter common beginning is not worth copying
_SMALLEST_TIER = 16  # slots in a step on CUDA; fewer would be no faster


class SlotTable:
    """The state of each slot, indexed so that no query has to visit all slots.

    It decides whose cache a sequence reuses; the backend decides which candidates get a slot.

    Args:
        slots: their number.

    Attributes:
        read: the tokens that each slot has read.
        busy: the slots in use.
    """

    def __init__(self, slots: int) -> None:
        self.read: list[list[int]] = [[] for _ in range(slots)]
        self.busy: set[int] = set()
        self._used = [0] * slots  # when each was last taken
        self._clock = 0
        self._by_head: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        self._idle: dict[int, set[int]] = {}  # by tier, the lowest first
        for slot in range(slots):
            self._idle.setdefault(tier(slot), set()).add(slot)

    def __len__(self) -> int:
        return len(self.read)

    def take(self, slot: int, tokens: list[int]) -> None:
        """Take an idle slot; of the tokens that it has read, only ``tokens`` remain."""
        self._clock += 1
        self._used[slot] = self._clock
        self._idle[tier(slot)].discard(slot)
        self.busy.add(slot)
        self._forget_head(slot)
        self.read[slot] = []
        self.add(slot, tokens)

    def leave(self, slot: int) -> None:
        """Free a slot; its tokens remain until it is taken again."""
        self.busy.discard(slot)
        self._idle[tier(slot)].add(slot)

    def add(self, slot: int, tokens: Sequence[int]) -> None:
        """Record tokens that a slot has read after the earlier ones."""
        read = self.read[slot]
        if len(read) >= _HEAD:
            read += tokens
            return
        self._forget_head(slot)
        read += tokens
        if read:
            self._by_head[tuple(read[:_HEAD])].add(slot)

    def longest(self, tokens: Sequence[int]) -> tuple[int, int]:
        """The slot that shares the longest beginning, and its length; of several, a free one."""
        candidates = self._by_head.get(tuple(tokens[:_HEAD]))
        if not candidates:
            idle = (slot for slots in self._idle.values() for slot in slots)
            return min(idle, key=lambda slot: (self._used[slot], -slot)), 0
        known, _, _, slot = max(
            (common(self.read[slot], tokens), slot not in self.busy, -self._used[slot], slot)
            for slot in candidates
        )
        return slot, known

    def vacant(self, source: int, *, later: set[int]) -> int:
        """A free slot for a sequence that continues ``source``: ``source`` itself, or a low one.

        Slots that other sequences will continue ``later`` are taken last.
        """
        tiers = [idle for idle in self._idle.values() if idle]
        slots = next((idle - later for idle in tiers if not idle <= later), tiers[0])
        return source if source in slots else min(slots, key=lambda slot: (self._used[slot], slot))

    def _forget_head(self, slot: int) -> None:
        head = tuple(self.read[slot][:_HEAD])
        if head:
            self._by_head[head].discard(slot)
            if not self._by_head[head]:
                del self._by_head[head]


def tier(slot: int) -> int:
    """How many slots a step must cover to include this one."""
    return max(_SMALLEST_TIER, 1 << slot.bit_length())


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the longest common beginning."""
    differ = map(operator.ne, one, other)
    return next(compress(count(), differ), min(len(one), len(other)))
