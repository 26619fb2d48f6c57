"""The best of very many keys, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hammingmark.stats.passages import scan_along

Key = TypeVar("Key")


class BestKeys:
    """The keys with the largest sum over a text, and over a window of it.

    Args:
        wholes: the number of keys to return for the whole text.
        windows: the number of keys to return for a window.
    """

    def __init__(self, *, wholes: int = 3, windows: int = 1) -> None:
        self._limits = wholes, windows
        self._wholes: list[tuple[float, int]] = []
        self._windows: list[tuple[float, int]] = []

    @property
    def keys(self) -> list[int]:
        """The numbers of the keys; for a text without any unit, that of the first key."""
        return list(dict.fromkeys(-number for _, number in self._wholes + self._windows)) or [0]

    def update(
        self,
        chunks: Iterable[NDArray[np.float64]],
        first: int,
        *,
        centre: NDArray[np.float64],
    ) -> None:
        """Add a block of keys.

        Args:
            chunks: the increments of the text under these keys, chunk by chunk, (c, k).
            first: the number of the first key.
            centre: what is subtracted from each increment before windows are compared, (u,).
        """
        if not len(centre):
            return
        wholes, windows = scan_along(chunks, centre)
        self._wholes = _best(self._wholes, wholes, first, limit=self._limits[0])
        self._windows = _best(self._windows, windows, first, limit=self._limits[1])


def _best(
    best: list[tuple[float, int]], scores: NDArray[np.float64], first: int, *, limit: int
) -> list[tuple[float, int]]:
    """The largest of the best scores so far and those of new keys, with negated key numbers.

    Args:
        best: the best scores so far, each with the negated number of its key.
        scores: scores of new keys, (k,), numbered from ``first``.
        first: the number of the first new key.
        limit: how many are returned; of equal scores, those of the first keys.
    """
    order = np.argsort(-scores, kind="stable")[:limit]
    return nlargest(limit, [*best, *((float(scores[i]), -first - int(i)) for i in order)])


def rank_keys(
    keys: Sequence[Key],
    centres: Sequence[NDArray[np.float64]],
    increments: Callable[[Sequence[Key]], Iterable[Iterable[NDArray[np.float64]]]],
    *,
    block_size: int,
    wholes: int = 3,
) -> list[list[int]]:
    """For each text, the numbers of the few keys under which it, or a passage of it, does best.

    Args:
        keys: all of them.
        centres: for each text, what to take off each increment before windows are compared, (u,).
        increments: for a block of k keys, gives the increments of each text in turn, chunk by chunk
            along it, (c, k).
        block_size: how many keys are compared side by side.
        wholes: how many keys to keep for the whole of a text, beside one for a passage.

    Returns:
        At most ``wholes`` + 1 numbers for each text; the first key for a text without any unit.
    """
    rankings = [BestKeys(wholes=wholes) for _ in centres]
    for first in range(0, len(keys), block_size):
        chunks = increments(keys[first : first + block_size])
        for ranking, centre, text_chunks in zip(rankings, centres, chunks, strict=True):
            ranking.update(text_chunks, first, centre=centre)
    return [ranking.keys for ranking in rankings]
