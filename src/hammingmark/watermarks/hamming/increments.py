"""What the transitions of a text add to a statistic, under any number of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from hammingmark.core.statistics import Pairs, Rule, Statistic

_CHUNK = 256  # sentences at a time, so that memory does not grow with the text

Projection = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Rows of a text (n, ·) to their projections under k keys (n, k, m)."""


def along(
    rows: NDArray[np.float32],
    similarity: NDArray[np.float64],
    view: Projection,
    *,
    statistic: Statistic,
    rule: Rule,
    shared: NDArray[np.float32] | None = None,
) -> Iterator[NDArray[np.float64]]:
    """Increments chunk by chunk along a text: (c, k).

    Args:
        rows: of n sentences, whatever ``view`` takes.
        similarity: cosine of neighbours, (n - 1,).
        view: gives their projections.
        statistic: which one.
        rule: m, and what is compared.
        shared: what every key has in common, (n, m), if anything.
    """
    for first in range(0, len(similarity), _CHUNK):
        part = slice(first, first + _CHUNK + 1)
        projections = view(rows[part])
        if shared is not None:
            projections += shared[part, None, :]
        pairs = Pairs(projections, similarity[first : first + _CHUNK], rule=rule)
        yield statistic.increments(pairs)
