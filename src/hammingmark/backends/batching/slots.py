"""Which slots of a batch engine are idle, and what each of them has read."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Sequence
from itertools import compress, count

_HEAD = 4  # a beginning shorter than this is not worth copying
_FEWEST = 16  # slots in a step on CUDA; fewer would be no faster


class SlotTable:
    """What is known of each slot, kept so that no request has to look at all of them.

    Args:
        slots: how many.

    Attributes:
        read: the tokens that each slot has read.
        busy: the slots in use.
    """

    def __init__(self, slots: int) -> None:
        self.read: list[list[int]] = [[] for _ in range(slots)]
        self.busy: set[int] = set()
        self._used = [0] * slots  # when each was last taken
        self._clock = 0
        self._p_novel: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)  # by their heads
        self._idle: dict[int, set[int]] = {}  # by their tiers, the lowest first
        for slot in range(slots):
            self._idle.setdefault(tier(slot), set()).add(slot)

    def __len__(self) -> int:
        return len(self.read)

    def take(self, slot: int, tokens: list[int]) -> None:
        """Put an idle slot to use; of what it has read, ``tokens`` are left."""
        self._clock += 1
        self._used[slot] = self._clock
        self._idle[tier(slot)].discard(slot)
        self.busy.add(slot)
        self._forget_head(slot)
        self.read[slot] = []
        self.add(slot, tokens)

    def leave(self, slot: int) -> None:
        """Free a slot; what it has read is kept until it is taken again."""
        self.busy.discard(slot)
        self._idle[tier(slot)].add(slot)

    def add(self, slot: int, tokens: Sequence[int]) -> None:
        """Note what a slot has read, behind what it had read before."""
        read = self.read[slot]
        if len(read) >= _HEAD:
            read += tokens
            return
        self._forget_head(slot)
        read += tokens
        if read:
            self._p_novel[tuple(read[:_HEAD])].add(slot)

    def longest(self, tokens: Sequence[int]) -> tuple[int, int]:
        """The slot that shares the longest beginning, and its length; a free one where equal."""
        alike = self._p_novel.get(tuple(tokens[:_HEAD]))
        if not alike:
            idle = (slot for slots in self._idle.values() for slot in slots)
            return min(idle, key=lambda slot: (self._used[slot], -slot)), 0
        known, _, _, slot = max(
            (common(self.read[slot], tokens), slot not in self.busy, -self._used[slot], slot)
            for slot in alike
        )
        return slot, known

    def vacant(self, source: int, *, later: set[int]) -> int:
        """A free slot for what goes on from ``source``: that one, or among the first.

        The slots from which others go on ``later`` are taken last.
        """
        tiers = [idle for idle in self._idle.values() if idle]
        slots = next((idle - later for idle in tiers if not idle <= later), tiers[0])
        return source if source in slots else min(slots, key=lambda slot: (self._used[slot], slot))

    def _forget_head(self, slot: int) -> None:
        head = tuple(self.read[slot][:_HEAD])
        if head:
            self._p_novel[head].discard(slot)
            if not self._p_novel[head]:
                del self._p_novel[head]


def tier(slot: int) -> int:
    """How many slots a step takes so that this one is among them."""
    return max(_FEWEST, 1 << slot.bit_length())


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the longest common beginning."""
    differ = map(operator.ne, one, other)
    return next(compress(count(), differ), min(len(one), len(other)))
