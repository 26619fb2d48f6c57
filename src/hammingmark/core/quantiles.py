"""The Harrell–Davis median: a mean of all order statistics, steadier than the middle one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_NODES = 24  # of the quadrature, for each order statistic
_DIGITS = 13  # that the weights have in common on every machine


def harrell_davis_median(values: NDArray[np.float64]) -> float:
    """The median of at least one value, (n,), after Harrell and Davis (1982).

    The i-th smallest has the weight that a Beta distribution with both parameters (n + 1) / 2
    has between (i - 1) / n and i / n.
    """
    ordered = np.sort(values)
    median = float((harrell_davis_weights(len(ordered)) * ordered).sum())
    # Weights that are rounded add up to one but for the last digits; equal values are their median.
    return min(max(median, float(ordered[0])), float(ordered[-1]))


@lru_cache(maxsize=512)
def harrell_davis_weights(n: int) -> NDArray[np.float64]:
    """The weights of n order statistics in their median: (n,).

    With x = (1 - cos φ) / 2 the density becomes sin^n φ, without a constant and smooth at both
    ends for every n. Each weight is its integral by Gauss and Legendre over one interval, divided
    by the sum of all.
    """
    edges = np.arccos(1.0 - 2.0 * np.arange(n + 1) / n)
    nodes, shares = np.polynomial.legendre.leggauss(_NODES)
    middle, half = (edges[1:] + edges[:-1]) / 2.0, (edges[1:] - edges[:-1]) / 2.0
    angles = middle[:, None] + half[:, None] * nodes
    pieces = half * (shares * np.sin(angles) ** n).sum(axis=1)
    pieces += pieces[::-1]  # symmetric to the last digit
    weights: NDArray[np.float64] = np.round(pieces / pieces.sum(), _DIGITS)
    weights.setflags(write=False)
    return weights
