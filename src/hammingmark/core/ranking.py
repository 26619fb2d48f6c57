"""The best of very many keys, some at a time."""

from __future__ import annotations

from heapq import nlargest

import numpy as np
from numpy.typing import NDArray


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
