"""The similarity of neighbouring sentences, and how much of natural text a rule on it lets pass.

A sample of natural text is rising values, (s,).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_DIGITS = 4  # of an edge that is chosen: finer than any sample tells


def share_inside(sample: NDArray[np.floating], low: float, high: float) -> float:
    """The share of values in [low, high], strictly between 0 and 1.

    Where none of s values lies inside, or none outside, half a value is taken to do so.
    """
    inside = float(((sample >= low) & (sample <= high)).mean())
    half = 0.5 / len(sample)
    return min(max(inside, half), 1.0 - half)


def central_interval(sample: NDArray[np.floating], share: float) -> tuple[float, float]:
    """The interval around the median that holds a share of the values."""
    low, high = np.quantile(sample, (0.5 - share / 2.0, 0.5 + share / 2.0))
    return round(float(low), _DIGITS), round(float(high), _DIGITS)


def threshold_for(sample: NDArray[np.floating], share: float) -> float:
    """The threshold that a share of the values reach."""
    return round(float(np.quantile(sample, 1.0 - share)), _DIGITS)


def even_sample(values: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """As many values as that at most, rising, evenly among all of them."""
    ordered = np.sort(values)
    if len(ordered) <= most:
        return ordered
    places = (np.arange(most) + 0.5) / most * len(ordered)
    return ordered[places.astype(np.int64)]


def cosines(embeddings: NDArray[np.float32]) -> NDArray[np.float64]:
    """rho of neighbouring unit rows: (n, d) to (n - 1,)."""
    return pair_cosines(embeddings[:-1], embeddings[1:])


def pair_cosines(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    """rho of unit rows, one by one: twice (n, d) to (n,).

    Summed in one order, so that a pair has the same cosine whatever stands beside it.
    """
    products = first.astype(np.float64, order="C") * second
    clipped: NDArray[np.float64] = np.clip(products.sum(axis=1), -1.0, 1.0)
    return clipped
