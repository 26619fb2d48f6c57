"""Correlated normal scores to independent ones.

Let z_1 ... z_n be jointly normal with mean 0 and a known covariance C. What z_t adds to those
before it,

    w_t = (z_t - E[z_t | z_1 ... z_{t-1}]) / sd[z_t | z_1 ... z_{t-1}]

are its innovations: independent standard normals, which are L⁻¹ z where C = L Lᵀ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LEAST = 0.02
"""A score of which the earlier ones leave less of the variance than this has no innovation: what
would be left of it is rounding, and what the earlier ones say is counted already."""


def innovations(
    scores: NDArray[np.float64], covariance: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Whiten scores in their order, under any number of keys that share a covariance.

    Args:
        scores: z, (n,) or (n, k).
        covariance: C, (n, n), with about 1 on its diagonal.

    Returns:
        w like ``scores``, 0 for a score that has none, and which have one, (n,).
    """
    left = np.array(covariance, np.float64)
    rest = np.array(scores, np.float64)
    white = np.zeros_like(rest)
    counted = np.zeros(len(left), np.bool_)
    for t in range(len(left)):
        variance = left[t, t]
        if variance < LEAST:
            continue
        counted[t] = True
        column = left[t + 1 :, t] / np.sqrt(variance)
        white[t] = rest[t] / np.sqrt(variance)
        left[t + 1 :, t + 1 :] -= np.multiply.outer(column, column)
        rest[t + 1 :] -= np.multiply.outer(column, white[t])
    return white, counted
