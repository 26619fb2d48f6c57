"""The scores of transitions, from the projections of their sentences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FARTHEST = 8.0
"""Scores beyond this count as this far; chance reaches it once in 10^15 transitions."""

_LEAST = 1e-12  # of a length by which to divide


def as_directions(projections: NDArray[np.float64]) -> NDArray[np.float64]:
    """x / |x| along the last axis, (..., m)."""
    lengths = np.sqrt((projections * projections).sum(axis=-1, keepdims=True))
    directions: NDArray[np.float64] = projections / np.maximum(lengths, _LEAST)
    return directions


def transition_scores(
    directions: NDArray[np.float64], projections: NDArray[np.float64]
) -> NDArray[np.float32]:
    """z = u · S e', along the last axis: (..., m) and (..., m) to (...).

    Summed in double precision in one order, so that a pair has the same score whatever stands
    beside it.
    """
    summed = (directions * projections).sum(axis=-1)
    scores: NDArray[np.float32] = np.clip(summed, -FARTHEST, FARTHEST).astype(np.float32)
    return scores


def covariance(
    directions: NDArray[np.float64], embeddings: NDArray[np.float32]
) -> NDArray[np.float64]:
    """C_st = (u_s · u_t)(e'_s · e'_t), that of the scores of a text over S, given R: (n, n).

    Args:
        directions: u of what stands before each sentence, (n, m).
        embeddings: e' of the sentences, (n, d).
    """
    after = embeddings.astype(np.float64)
    shared: NDArray[np.float64] = (directions @ directions.T) * (after @ after.T)
    return shared
