"""The scores of transitions, from the projections of their sentences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_SCORE = 8.0
"""Larger scores count as this one, which chance reaches once in 10^15 transitions."""

_MIN_LENGTH = 1e-12  # by which a row is divided


def as_directions(projections: NDArray[np.float64]) -> NDArray[np.float64]:
    """x / |x| along the last axis, (..., m)."""
    lengths = np.sqrt((projections * projections).sum(axis=-1, keepdims=True))
    directions: NDArray[np.float64] = projections / np.maximum(lengths, _MIN_LENGTH)
    return directions


def transition_scores(
    directions: NDArray[np.float64], projections: NDArray[np.float64]
) -> NDArray[np.float32]:
    """z = u · S e', along the last axis: (..., m) and (..., m) to (...).

    Summed in double precision in one order, so that the score of a pair does not depend on the
    other pairs.
    """
    summed = (directions * projections).sum(axis=-1)
    scores: NDArray[np.float32] = np.clip(summed, -MAX_SCORE, MAX_SCORE).astype(np.float32)
    return scores


def covariance(
    directions: NDArray[np.float64], embeddings: NDArray[np.float32]
) -> NDArray[np.float64]:
    """C_st = (u_s · u_t)(e'_s · e'_t), the covariance of a text's scores over S given R: (n, n).

    Args:
        directions: u, the direction before each sentence, (n, m).
        embeddings: e' of the sentences, (n, d).
    """
    after = embeddings.astype(np.float64)
    shared: NDArray[np.float64] = (directions @ directions.T) * (after @ after.T)
    return shared


MIN_VARIANCE = 0.02
"""A score with a smaller variance given the earlier scores is not counted: what the earlier scores
determine of it is already counted, and the rest is mostly rounding."""

MAX_COEFFICIENTS = 1e3
"""A score is not counted either if the coefficients of its deviate w = L⁻¹ z have a larger sum of
absolute values: along a chain of near-copies, rounding errors grow with every step."""


def triangular_factor(
    covariance: NDArray[np.float64], included: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The Cholesky factor L of a covariance, and which scores count.

    Args:
        covariance: C, (n, n), with about 1 on its diagonal.
        included: which scores may count, (n,); by default all.

    Returns:
        L, (n, n), with a column of zeros for a score that does not count; which scores count, (n,).
    """
    left = np.array(covariance, np.float64)
    lower = np.zeros_like(left)
    inverse = np.zeros_like(left)
    counted = np.zeros(len(left), np.bool_)
    for t in range(len(left)):
        variance = left[t, t]
        if variance < MIN_VARIANCE or not (included is None or included[t]):
            continue
        row = -np.einsum("s,st->t", lower[t, :t], inverse[:t]) / np.sqrt(variance)
        row[t] = 1.0 / np.sqrt(variance)
        if np.abs(row).sum() > MAX_COEFFICIENTS:
            continue
        counted[t] = True
        inverse[t] = row
        lower[t:, t] = left[t:, t] / np.sqrt(variance)
        left[t + 1 :, t + 1 :] -= np.multiply.outer(lower[t + 1 :, t], lower[t + 1 :, t])
    return lower, counted
