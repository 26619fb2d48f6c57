"""The upper tail of the standard normal distribution, over arrays."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

DoubleArray = NDArray[np.float64]

_STEP = 1.0 / 64
_FIRST, _LAST = -9.0, 37.0  # further out the tail is 1, or too small for a double

DEEPEST = math.log(0.5 * math.erfc(_LAST / math.sqrt(2.0)))
"""The smallest logarithm of a tail."""


def log_tail(x: DoubleArray) -> DoubleArray:
    """ln P(Z >= x), to nine digits; below -9 and above 37 as there.

    By Hermite's cubic through a table of it and of its slope, which is minus the hazard rate.
    """
    logs, hazards = _table()
    at = (np.clip(x, _FIRST, _LAST) - _FIRST) / _STEP
    left = np.minimum(at.astype(np.int64), len(logs) - 2)
    s = at - left
    low, high = logs[left], logs[left + 1]
    rise = high - low
    begin, end = -_STEP * hazards[left] - rise, -_STEP * hazards[left + 1] - rise
    value: DoubleArray = low + s * (rise + (1.0 - s) * (begin * (1.0 - s) - end * s))
    return value


def tail_quantile(log_p: DoubleArray) -> DoubleArray:
    """The x at which ln P(Z >= x) has these values: `log_tail` the other way round."""
    logs, hazards = _table()
    places = _FIRST + _STEP * np.arange(len(logs))
    near = np.interp(-log_p, -logs, places)
    slopes = np.interp(near, places, hazards)
    # One step of Newton's method: the interpolated place is right to four digits.
    found: DoubleArray = near + (log_tail(near) - log_p) / np.maximum(slopes, 1e-12)
    return np.clip(found, _FIRST, _LAST)


@cache
def _table() -> tuple[DoubleArray, DoubleArray]:
    """ln P(Z >= x), and the hazard rate φ(x) / P(Z >= x), from the first x to the last."""
    places = _FIRST + _STEP * np.arange(round((_LAST - _FIRST) / _STEP) + 1)
    logs = np.array([_log_tail(float(x)) for x in places])
    hazards = np.exp(-0.5 * places * places - 0.5 * math.log(2.0 * math.pi) - logs)
    return logs, hazards


def _log_tail(x: float) -> float:
    if x <= 0.0:
        return math.log1p(-0.5 * math.erfc(-x / math.sqrt(2.0)))
    return math.log(0.5 * math.erfc(x / math.sqrt(2.0)))
