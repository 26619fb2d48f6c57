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


LEAST = 0.02
"""A score of which the earlier ones leave less of the variance than this is not counted: what would
be left of it is rounding, and what the earlier ones say is counted already."""

MOST = 1e3
"""Nor is one whose deviate w = L⁻¹ z takes more of the scores than this, in absolute values: along
a chain of near-copies the rounding of scores grows with every step, until nothing else is left."""


def triangular_factor(
    covariance: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """L, and which scores count.

    Args:
        covariance: C, (n, n), with about 1 on its diagonal.

    Returns:
        L, (n, n), with a column of zeros for a score that does not count; which do, (n,).
    """
    left = np.array(covariance, np.float64)
    lower = np.zeros_like(left)
    inverse = np.zeros_like(left)
    counted = np.zeros(len(left), np.bool_)
    for t in range(len(left)):
        variance = left[t, t]
        if variance < LEAST:
            continue
        row = -np.einsum("s,st->t", lower[t, :t], inverse[:t]) / np.sqrt(variance)
        row[t] = 1.0 / np.sqrt(variance)
        if np.abs(row).sum() > MOST:
            continue
        counted[t] = True
        inverse[t] = row
        lower[t:, t] = left[t:, t] / np.sqrt(variance)
        left[t + 1 :, t + 1 :] -= np.multiply.outer(lower[t + 1 :, t], lower[t + 1 :, t])
    return lower, counted
