"""Tail probabilities of sums of independent increments and of their best windows.

The increments of a text and those of the null distribution have values on one lattice, so nothing
is approximated: the probability mass function of a sum of n comes from n-fold convolution. The
increments are exponentially tilted so that their mean is the score in question, which keeps the
relative precision of a probability however small it is. The best window is the largest value of

    W_t = max(0, W_{t-1} + g_t - c)

a Markov chain on the same lattice, so its tail is exact as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

DoubleArray = NDArray[np.float64]

SMALLEST = 1e-300
"""The smallest p-value that is reported."""

_CELLS = 64  # cells of a normal deviate per standard deviation
_FARTHEST = 8  # standard deviations; a larger deviate counts as this
_STEEPEST = 64.0  # tilt under which only the largest value has any mass left
_UNTILTED = 1e-9  # tail from which untilted convolution is precise enough
_FEW = 64  # number of increments up to which they are convolved one by one
_SQUARING = 0.5  # time of a multiplication in a matrix product, relative to one in a convolution


class Increments:
    """Independent increments on a lattice.

    Args:
        first: the least value, in steps.
        mass: probability of each value, from the least one upwards, (v,).
        step: the step of the lattice.
    """

    def __init__(self, first: int, mass: DoubleArray, *, step: float) -> None:
        self.step = step
        self._first = first
        self._last = first + len(mass) - 1
        self._mass = mass
        self._survival = lru_cache(maxsize=4096)(self._survival_of_steps)
        self._scan_survival = lru_cache(maxsize=4096)(self._scan_survival_of_steps)
        self._adjusted = lru_cache(maxsize=16)(self._adjusted_to)

    @property
    def best(self) -> float:
        """The largest value."""
        return self._last * self.step

    @property
    def moments(self) -> tuple[float, float]:
        """The mean and the variance of an increment."""
        values = self.step * np.arange(self._first, self._last + 1)
        mean = float(self._mass @ values)
        return mean, float(self._mass @ (values - mean) ** 2)

    @cached_property
    def marked_mean(self) -> float:
        """The mean of a log-likelihood ratio in marked text."""
        marked, _ = self._tilted(self.step)
        return float(marked @ np.arange(self._first, self._last + 1)) * self.step

    def quantiles(self, shares: DoubleArray) -> DoubleArray:
        """The quantiles of an increment at these probabilities, any shape to the same."""
        indices = np.searchsorted(np.cumsum(self._mass), shares)
        values: DoubleArray = (self._first + np.minimum(indices, len(self._mass) - 1)) * self.step
        return values

    def survival(self, n: int, score: float) -> float:
        """P(g_1 + ... + g_n >= score)."""
        return self._survival(n, self._steps(score))

    def scan_survival(self, n: int, score: float, *, centre: float) -> float:
        """P(the best window of g_1 - c, ..., g_n - c reaches the score), for c on the lattice."""
        return self._scan_survival(n, self._steps(score), round(centre / self.step))

    def scan_bound(self, n: int, score: float, *, centre: float) -> float:
        """An upper bound on `scan_survival` that is cheap to compute: n e^(-θ score).

        For the θ with E e^(θ (g - c)) = 1 and a walk W that begins at one of n units, e^(θ W) is a
        martingale, so the probability that the walk ever reaches a score is at most e^(-θ score).
        """
        steps = self._steps(score)
        return min(1.0, n * math.exp(-self._adjusted(round(centre / self.step)) * max(0, steps)))

    def power(self, n: int, level: float) -> float:
        """The probability that the sum of n log-likelihood ratios of marked text reaches a level.

        Weighting each value by its likelihood ratio e^g turns the null distribution into that of
        marked text.
        """
        if level >= 1.0:
            return 1.0
        tilted, _ = self._tilted(self.step)
        marked = _convolved(tilted, n)
        if level >= _UNTILTED:
            tails = np.cumsum(_convolved(self._mass, n)[::-1])[::-1]
            return min(1.0, float(marked[tails <= level].sum()))
        critical = self.critical_steps(n, level)
        return min(1.0, float(marked[critical - n * self._first :].sum()))

    def critical_steps(self, n: int, level: float) -> int:
        """The least number of steps that a sum of n reaches with at most this probability."""
        low, high = n * self._first, n * self._last + 1  # the result is above low
        while high - low > 1:
            middle = (low + high) // 2
            if self._survival(n, middle) > level:
                low = middle
            else:
                high = middle
        return high

    def _survival_of_steps(self, n: int, steps: int) -> float:
        if steps <= n * self._first:
            return 1.0
        if steps > n * self._last:
            return 0.0
        theta = self._tilt_to(steps / n)
        tilted, log_mean = self._tilted(theta)
        masses = _convolved(tilted, n)[steps - n * self._first :]
        tail = float((masses * np.exp(-theta * np.arange(len(masses)))).sum())
        return min(1.0, math.exp(n * log_mean - theta * steps) * tail)

    def _scan_survival_of_steps(self, n: int, steps: int, centre: int) -> float:
        if steps <= 0:
            return 1.0
        first = self._first - centre
        if n > _FEW and n * len(self._mass) > _SQUARING * steps * steps * n.bit_length():
            return _absorbed(self._mass, first, steps, n)
        state = np.zeros(steps)
        state[0] = 1.0
        reached = 0.0
        for _ in range(n):
            sums = np.convolve(state, self._mass)  # index i has the value first + i
            low = min(max(0, 1 - first), len(sums))  # number of values that are not above 0
            inside = sums[low : max(low, steps - first)]
            state = np.zeros(steps)
            state[0] = sums[:low].sum()
            state[first + low : first + low + len(inside)] += inside
            reached += float(sums[low + len(inside) :].sum())
        return min(1.0, reached)

    def _tilted(self, theta: float) -> tuple[DoubleArray, float]:
        """The mass of each value v times e^(theta v), normalised, and the log of their sum."""
        values = np.arange(self._first, self._last + 1)
        with np.errstate(divide="ignore"):
            logs = np.log(self._mass) + theta * values
        top = float(logs.max())
        weights = np.exp(logs - top)
        total = float(weights.sum())
        return weights / total, top + math.log(total)

    def _tilt_to(self, mean: float) -> float:
        """The tilt, at least 0, under which the mean is about this many steps."""
        values = np.arange(self._first, self._last + 1)
        low, high = 0.0, _STEEPEST
        for _ in range(30):
            middle = (low + high) / 2.0
            if float(self._tilted(middle)[0] @ values) < mean:
                low = middle
            else:
                high = middle
        return low

    def _adjusted_to(self, centre: int) -> float:
        """About the largest tilt for which e^(tilt (g - c)) has a mean of at most 1."""
        low, high = 0.0, _STEEPEST
        for _ in range(60):
            middle = (low + high) / 2.0
            if self._tilted(middle)[1] <= middle * centre:
                low = middle
            else:
                high = middle
        return low

    def _steps(self, score: float) -> int:
        return math.ceil(score / self.step - 1e-6)


class NormalIncrements(Increments):
    """A function g of standard normal deviates, rounded to the lattice in each cell.

    Args:
        function: g, from the centres of cells, (c,), to the increments of deviates in them, (c,).
        origin: an edge of the cells: the discontinuity of g, if there is one.
    """

    STEP: ClassVar[float] = 1.0 / 64

    def __init__(self, function: Callable[[DoubleArray], DoubleArray], *, origin: float) -> None:
        edges = origin + np.arange(-_FARTHEST * _CELLS, _FARTHEST * _CELLS + 1) / _CELLS
        self._origin = origin
        self._cells = np.rint(function((edges[:-1] + edges[1:]) / 2.0) / self.STEP).astype(np.int64)
        first = int(self._cells.min())
        mass = np.bincount(self._cells - first, weights=_normal_masses(edges)).astype(np.float64)
        super().__init__(first, mass, step=self.STEP)

    def of(self, deviates: DoubleArray) -> DoubleArray:
        """g of deviates, any shape to the same."""
        cells = np.floor((deviates - self._origin) * _CELLS).astype(np.int64) + _FARTHEST * _CELLS
        steps = self._cells[np.clip(cells, 0, len(self._cells) - 1)]
        values: DoubleArray = steps.astype(np.float64) * self.STEP
        return values


def _convolved(mass: DoubleArray, n: int) -> DoubleArray:
    """The mass function of the sum of n increments."""
    size = n * (len(mass) - 1) + 1
    length = 1 << (size - 1).bit_length()
    spectrum = np.fft.rfft(mass, length) ** n
    return np.maximum(np.fft.irfft(spectrum, length)[:size], 0.0)


def _absorbed(mass: DoubleArray, first: int, steps: int, n: int) -> float:
    """The probability that W reaches this many steps within n increments.

    It is computed by powers of the transition matrix, whose last state means that W has reached
    them. Nothing is subtracted, so small probabilities keep their relative precision.
    """
    size = steps + 1
    states = np.arange(steps)[:, None]
    next_states = np.clip(states + first + np.arange(len(mass)), 0, steps)
    weights = np.broadcast_to(mass, next_states.shape).ravel()
    indices = (states * size + next_states).ravel()
    matrix = np.bincount(indices, weights=weights, minlength=size * size).reshape(size, size)
    matrix[steps, steps] = 1.0
    state = np.zeros(steps + 1)
    state[0] = 1.0
    while True:
        if n & 1:
            state = state @ matrix
        n >>= 1
        if not n:
            return min(1.0, float(state[steps]))
        matrix = matrix @ matrix


def _normal_masses(edges: DoubleArray) -> DoubleArray:
    """The probability of each cell between edges; the first and the last cell are unbounded."""
    roots = edges[1:-1] / math.sqrt(2.0)
    below = np.array([0.0, *(0.5 * math.erfc(-root) for root in roots), 1.0])
    above = np.array([1.0, *(0.5 * math.erfc(root) for root in roots), 0.0])
    # From the nearer tail, so that small probabilities keep their relative precision.
    return np.where(edges[1:] <= 0.0, np.diff(below), -np.diff(above))
