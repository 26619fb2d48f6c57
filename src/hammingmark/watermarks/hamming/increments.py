"""The increments of a text's transitions to a statistic, under any number of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from hammingmark.watermarks._shared.hashing import project
from hammingmark.watermarks.hamming.pairs import Pairs, Rule
from hammingmark.watermarks.hamming.statistics import Statistic

_CHUNK = 256  # sentences at a time, so that memory does not grow with the text

Projection = Callable[["slice | NDArray[np.intp]"], NDArray[np.float32]]
"""From the numbers of c sentences of a text to their projections under k keys, (c, k, m)."""


def along(
    view: Projection, similarity: NDArray[np.float64], *, statistic: Statistic, rule: Rule
) -> Iterator[NDArray[np.float64]]:
    """Increments chunk by chunk along a text: (c, k).

    Args:
        view: gives the projections of the text's n sentences.
        similarity: cosines of neighbours, (n - 1,).
        statistic: computes the increments of pairs.
        rule: m, and what is compared.
    """
    for first in range(0, len(similarity), _CHUNK):
        projections = view(slice(first, first + _CHUNK + 1))
        pairs = Pairs(projections, similarity[first : first + _CHUNK], rule=rule)
        yield statistic.increments(pairs)


def projected(
    rows: NDArray[np.float32],
    planes: NDArray[np.float32],
    *,
    bits: int,
    shared: NDArray[np.float32] | None = None,
) -> Projection:
    """The projections of rows (n, d) under the planes of k keys.

    Args:
        rows: one for each sentence.
        planes: the transposed planes of the keys side by side, (d, k m).
        bits: m.
        shared: a part of the projections that is the same for every key, (n, m).
    """

    def view(part: slice | NDArray[np.intp]) -> NDArray[np.float32]:
        projections = project(rows[part], planes, bits=bits)
        if shared is not None:
            projections += shared[part, None, :]
        return projections

    return view
