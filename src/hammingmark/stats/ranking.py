"""The best of very many keys, some at a time."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest

import numpy as np
from numpy.typing import NDArray

from hammingmark.stats.passages import scan_along


class BestKeys:
    """The keys, of very many, under which a text and a passage of it do best.

    Args:
        wholes: how many to keep for the whole of the text.
        windows: how many for a passage.
    """

    def __init__(self, *, wholes: int = 3, windows: int = 1) -> None:
        self._most = wholes, windows
        self._wholes: list[tuple[float, int]] = []
        self._windows: list[tuple[float, int]] = []

    @property
    def keys(self) -> list[int]:
        """Their numbers; the first for a text without any unit."""
        return list(dict.fromkeys(-place for _, place in self._wholes + self._windows)) or [0]

    def update(
        self,
        chunks: Iterable[NDArray[np.float64]],
        first: int,
        *,
        centre: NDArray[np.float64],
    ) -> None:
        """Look at more keys.

        Args:
            chunks: the increments of the text under them, chunk by chunk along it, (c, k).
            first: the number of the first of these keys.
            centre: what to take off each increment before windows are compared, (u,).
        """
        if not len(centre):
            return
        wholes, windows = scan_along(chunks, centre)
        self._wholes = keep_best(self._wholes, wholes, first, most=self._most[0])
        self._windows = keep_best(self._windows, windows, first, most=self._most[1])


def keep_best(
    known: list[tuple[float, int]], scores: NDArray[np.float64], first: int, *, most: int
) -> list[tuple[float, int]]:
    """The best scores of those known and those new, with the numbers of their keys, negated.

    Args:
        known: what an earlier call gave.
        scores: of new keys, (k,), numbered from ``first``.
        first: the number of the first of them.
        most: how many to keep; of equal ones the earlier.
    """
    places = np.argsort(-scores, kind="stable")[:most]
    return nlargest(most, [*known, *((float(scores[i]), -first - int(i)) for i in places)])
