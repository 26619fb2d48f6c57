"""Correlated normal scores, one after the other.

Let z_1 ... z_n be jointly normal with mean 0 and a known covariance C = L Lᵀ, L lower triangular.
Then z = L w for independent standard normals w, so that given those before it z_t is normal with

    mean  L_t1 w_1 + ... + L_t,t-1 w_{t-1}   and standard deviation  L_tt
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
