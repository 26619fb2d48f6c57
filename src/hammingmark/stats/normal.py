"""The upper tail of the standard normal distribution, over arrays."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

DoubleArray = NDArray[np.float64]

_STEP = 1.0 / 64
_FIRST, _LAST = -9.0, 37.0  # outside, the tail is 1, or too small for a double

DEEPEST = math.log(0.5 * math.erfc(_LAST / math.sqrt(2.0)))
"""The smallest logarithm of a tail."""


def log_tail(x: DoubleArray) -> DoubleArray:
    """ln P(Z >= x), to nine digits; below -9 and above 37, its value there.

    It is interpolated by Hermite's cubic from a table of the logarithm and its slope, which is
    minus the hazard rate.
    """
    logs, hazards = _table()
    position = (np.clip(x, _FIRST, _LAST) - _FIRST) / _STEP
    left = np.minimum(position.astype(np.int64), len(logs) - 2)
    s = position - left
    low, high = logs[left], logs[left + 1]
    rise = high - low
    begin, end = -_STEP * hazards[left] - rise, -_STEP * hazards[left + 1] - rise
    value: DoubleArray = low + s * (rise + (1.0 - s) * (begin * (1.0 - s) - end * s))
    return value


def tail_quantile(log_p: DoubleArray) -> DoubleArray:
    """The x with these values of ln P(Z >= x): the inverse of `log_tail`."""
    logs, hazards = _table()
    grid = _FIRST + _STEP * np.arange(len(logs))
    start = np.interp(-log_p, -logs, grid)
    slopes = np.interp(start, grid, hazards)
    # One step of Newton's method from the interpolated value, which is correct to four digits.
    x: DoubleArray = start + (log_tail(start) - log_p) / np.maximum(slopes, 1e-12)
    return np.clip(x, _FIRST, _LAST)


@cache
def _table() -> tuple[DoubleArray, DoubleArray]:
    """ln P(Z >= x) and the hazard rate φ(x) / P(Z >= x) on a grid from the first x to the last."""
    grid = _FIRST + _STEP * np.arange(round((_LAST - _FIRST) / _STEP) + 1)
    logs = np.array([_log_tail(float(x)) for x in grid])
    hazards = np.exp(-0.5 * grid * grid - 0.5 * math.log(2.0 * math.pi) - logs)
    return logs, hazards


def _log_tail(x: float) -> float:
    if x <= 0.0:
        return math.log1p(-0.5 * math.erfc(-x / math.sqrt(2.0)))
    return math.log(0.5 * math.erfc(x / math.sqrt(2.0)))
