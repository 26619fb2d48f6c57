"""The residual of a sentence: its embedding with that of the sentence before projected out.

With unit embeddings e and e' of two neighbours at cosine ρ, the residual is

    f = (e' - ρ e) / √(1 - ρ²)

It has length one and stands at right angles to e. Under a Gaussian matrix R the projections of e
and f are therefore independent: each bit of f matches e's with probability 1/2, whatever the
similarity, the topic or the encoder. A rule that compares e with f in place of e' accepts, on
average over keys, the same share of candidates everywhere, whether or not they repeat the last
sentence, and every transition it accepts proves the same.

Projecting is linear, so the residual is taken on projections and any number of keys at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LEAST = 1e-6
"""Of 1 - ρ². A sentence nearer to the one before it is a copy and has no residual; -e is put in its
place, so that no rule accepts it."""


def residual_of(
    before: NDArray[np.float32], after: NDArray[np.float32], cosine: NDArray[np.float64]
) -> NDArray[np.float32]:
    """f, or the projections of f.

    Args:
        before: e, or its projections, (n, ...) or anything that broadcasts to it.
        after: e', or its projections, (n, ...).
        cosine: ρ of each pair, (n,).

    Returns:
        Like ``after``.
    """
    left = 1.0 - np.square(cosine)
    scale = 1.0 / np.sqrt(np.maximum(left, LEAST))
    shape = (-1, *(1,) * (after.ndim - 1))
    part: NDArray[np.float32] = after - cosine.astype(np.float32).reshape(shape) * before
    part *= scale.astype(np.float32).reshape(shape)
    copies = left <= LEAST
    if copies.any():
        part[copies] = -np.broadcast_to(before, part.shape)[copies]
    return part
