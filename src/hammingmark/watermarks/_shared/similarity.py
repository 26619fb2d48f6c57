"""The similarity of neighbouring sentences, and its natural acceptance rate.

A sample of natural text is s similarities in ascending order, (s,).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_DIGITS = 4  # of a fitted threshold, which is more than the precision of any sample


def share_inside(sample: NDArray[np.floating], low: float, high: float) -> float:
    """The share of values in [low, high], strictly between 0 and 1.

    If none of the s values lies inside, or none outside, half a value is taken to lie there.
    """
    inside = float(((sample >= low) & (sample <= high)).mean())
    half = 0.5 / len(sample)
    return min(max(inside, half), 1.0 - half)


def central_interval(sample: NDArray[np.floating], share: float) -> tuple[float, float]:
    """The interval around the median that holds a share of the values."""
    low, high = np.quantile(sample, (0.5 - share / 2.0, 0.5 + share / 2.0))
    return round(float(low), _DIGITS), round(float(high), _DIGITS)


def threshold_for(sample: NDArray[np.floating], share: float) -> float:
    """The threshold that this share of the values reaches."""
    return round(float(np.quantile(sample, 1.0 - share)), _DIGITS)


def even_sample(values: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """At most ``most`` of the values, in ascending order and evenly spaced among all of them."""
    ordered = np.sort(values)
    if len(ordered) <= most:
        return ordered
    places = (np.arange(most) + 0.5) / most * len(ordered)
    return ordered[places.astype(np.int64)]


def cosines(embeddings: NDArray[np.float32]) -> NDArray[np.float64]:
    """rho of neighbouring unit rows: (n, d) to (n - 1,)."""
    return pair_cosines(embeddings[:-1], embeddings[1:])


def pair_cosines(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    """rho of pairs of unit rows: (n, d) and (n, d) to (n,).

    Summed in one order, so that the cosine of a pair does not depend on the other rows.
    """
    products = first.astype(np.float64, order="C") * second
    clipped: NDArray[np.float64] = np.clip(products.sum(axis=1), -1.0, 1.0)
    return clipped
