"""The exact null distribution of a sum over groups of units that share a draw.

A key draws one outcome for each group, such as whether an n-gram is green, independently of the
other groups. The outcome decides the increment of every unit of the group: a repeated token adds
the same again, or, if its kind is another, the increment of that kind. Increments are whole
numbers, so the probability mass function of a group's sum is a short array, and that of the text's
sum is their convolution. All terms are positive, so a tail keeps its relative precision however
small it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.key import Secret
from hammingmark.protocols import ComputedNull
from hammingmark.records import Power
from hammingmark.stats.joint import BOTH
from hammingmark.stats.passages import scan_along
from hammingmark.stats.references import SequentialTest
from hammingmark.stats.sums import SMALLEST

DoubleArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_BLOCK = 1000  # draws in a block
_DRAWS = (100, 400, 1500)  # draws for windows, in stages: a later one only if it is needed
_STOP_AFTER = 10  # draws that reach a window before its test stops
_CHUNK = 256  # units in a chunk, so that memory does not grow with the text
_ROUNDING = 1e-6  # largest rounding error of a sum of whole numbers


class GroupedNull:
    """The null distribution of a sum over units in groups: a `ComputedNull`.

    Args:
        groups: the group of each unit, any numbers, (u,).
        increments: the increments of r kinds of unit under each outcome, whole numbers, (r, o).
        probabilities: the probabilities of the outcomes, (o,).
        centre: what is subtracted from each increment before windows are compared.
        kinds: the kind of each unit, a row of ``increments``, (u,); by default the first.
        secret: the secret of the key, for draws.
        tilt: in marked text, the odds of an outcome grow by e^(tilt x) for each unit with the
            increment x. It serves to estimate the power of the test; 0 if it is not known.
    """

    description = "exact over keys"
    draws = 0

    def __init__(
        self,
        groups: IntArray,
        increments: NDArray[np.int64] | NDArray[np.int8],
        probabilities: DoubleArray | Sequence[float],
        *,
        centre: float,
        kinds: IntArray | None = None,
        secret: Secret,
        tilt: float = 0.0,
    ) -> None:
        self._tilt = tilt
        self.centre = np.full(len(groups), centre)
        self._window_maxima: dict[int, DoubleArray] = {}
        self._groups = np.unique(groups, return_inverse=True)[1].reshape(-1).astype(np.int64)
        self._kinds = np.zeros(len(groups), np.int64) if kinds is None else kinds
        self._probabilities = np.asarray(probabilities, np.float64)
        self._secret = secret
        # Increments as numbers of steps above the least one: signs of -1 and 1 become 0 and 1.
        self._least = int(increments.min()) if increments.size else 0
        above = increments.astype(np.int64) - self._least
        self._step = max(1, int(np.gcd.reduce(above, axis=None)))
        self._steps = above // self._step

    def __repr__(self) -> str:
        return f"GroupedNull({len(self._groups)} units, {self._count} groups)"

    @property
    def computed(self) -> ComputedNull:
        """This distribution."""
        return self

    @cached_property
    def best(self) -> DoubleArray:
        """The largest increment that any key could give each unit, (u,)."""
        steps = self._steps.max(axis=1, initial=0)[self._kinds]
        values: DoubleArray = (self._least + self._step * steps).astype(np.float64)
        return values

    @cached_property
    def mean(self) -> float:
        """The mean of the sum."""
        return self._value(float((self._sums() @ self._probabilities).sum()))

    @cached_property
    def variance(self) -> float:
        """The variance of the sum."""
        sums = self._sums().astype(np.float64)
        means = sums @ self._probabilities
        spread = (sums - means[:, None]) ** 2 @ self._probabilities
        return float(self._step**2 * spread.sum())

    def z(self, increments: DoubleArray) -> float:
        """The sum of increments (u,) in standard deviations above its mean.

        It is 0 if all keys give the same sum.
        """
        excess = float(increments.sum()) - self.mean
        return excess / math.sqrt(self.variance) if self.variance > 0.0 else 0.0

    @cached_property
    def attainable(self) -> float:
        """The p-value of the largest sum that a key can give, with one outcome for each group."""
        return self._tail(self._masses, self._value(float(self._sums().max(axis=1).sum())))

    def p_value(self, increments: DoubleArray) -> float:
        """The probability of a sum as large as that of these increments, (u,)."""
        return self._tail(self._masses, float(increments.sum()))

    def window_p_value(self, increments: DoubleArray, window: slice) -> float:
        """The probability that any window has a sum as large as this one.

        It is counted in draws of all groups. If no draw has such a window, it is the tail of this
        window's own sum with Bonferroni's correction, if that is smaller. The p-value is valid at
        every level, because at levels that the draws can show, the draws alone decide.
        """
        score = float((increments - self.centre)[window].sum()) - _ROUNDING * len(increments)
        test = SequentialTest(score, limit=sum(_DRAWS), stop_after=_STOP_AFTER)
        for stage in range(len(_DRAWS)):
            if not test.stopped:
                test.update(self._maxima_of_windows(stage))
        if test.reached:
            return test.p_value
        units = len(self._groups)
        masses = self._distribution(self._sums(window))
        tail = self._tail(masses, float(increments[window].sum()), units=len(increments[window]))
        return min(test.p_value, units * (units + 1) / 2 * tail)

    def joint_p_value(self, increments: DoubleArray) -> float | None:
        """None: the joint distribution is not computed."""
        return None

    def power(self, level: float) -> Power:
        """How often marked texts as written reach a level.

        How much of the mark rewording leaves is not known.
        """
        return Power(self._share(level), self._share(level / BOTH))

    def _share(self, level: float) -> float | None:
        """The probability that marked text reaches a level, with a normal approximation of sums.

        Given a text, the probability that a key marked it is proportional to its likelihood ratio,
        in which a group has one factor for each of its units.
        """
        if not self._tilt or self.variance == 0.0:
            return None
        tails = np.cumsum(self._masses[::-1])[::-1]
        critical = int(np.count_nonzero(tails > level))  # steps from which the level is reached
        if critical == len(tails):
            return 0.0
        sums = self._sums().astype(np.float64)
        ratios = self._tilt * self._step * (sums - sums.max(axis=1)[:, None])
        weights = self._probabilities * np.exp(ratios)
        weights /= weights.sum(axis=1)[:, None]
        means = (weights * sums).sum(axis=1)
        spread = math.sqrt(float((weights * (sums - means[:, None]) ** 2).sum()))
        excess = float(means.sum()) - (critical - 0.5)
        return NormalDist().cdf(excess / spread) if spread > 0.0 else float(excess >= 0.0)

    def blocks(self) -> Iterator[Iterator[DoubleArray]]:
        """Independent draws of all groups, with random numbers from the secret."""
        return (self._draw(block, "null", _BLOCK) for block in count())

    def _maxima_of_windows(self, stage: int) -> DoubleArray:
        """The sum of the best window of each draw of a stage, (k,)."""
        if stage not in self._window_maxima:
            chunks = self._draw(stage, "windows", _DRAWS[stage])
            self._window_maxima[stage] = scan_along(chunks, self.centre)[1]
        return self._window_maxima[stage]

    @property
    def _count(self) -> int:
        return int(self._groups.max(initial=-1)) + 1

    @cached_property
    def _masses(self) -> DoubleArray:
        """The probability of each sum of the text, in steps above the least."""
        return self._distribution(self._sums())

    def _value(self, steps: float) -> float:
        """The sum of the text that is this many steps above the least."""
        return self._least * len(self._groups) + self._step * steps

    def _tail(self, masses: DoubleArray, score: float, *, units: int | None = None) -> float:
        """P(sum >= score), from the probability of each number of steps above the least."""
        count = len(self._groups) if units is None else units
        steps = math.ceil((score - self._least * count) / self._step - _ROUNDING)
        if steps <= 0:
            return 1.0
        return min(1.0, max(SMALLEST, float(masses[steps:].sum())))

    def _sums(self, window: slice = slice(None)) -> IntArray:
        """The sum of each group in a window under each outcome, in steps, (g, o)."""
        groups, kinds = self._groups[window], self._kinds[window]
        if not len(groups):
            return np.zeros((0, len(self._probabilities)), np.int64)
        order = np.argsort(groups, kind="stable")
        firsts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        sums: IntArray = np.add.reduceat(self._steps[kinds[order]], firsts, axis=0)
        return sums

    def _distribution(self, sums: IntArray) -> DoubleArray:
        """The probability of each number of steps, from the sums of groups (g, o)."""
        counts = Counter(_group_masses(group, self._probabilities).tobytes() for group in sums)
        masses = [_power(np.frombuffer(content), times) for content, times in counts.items()]
        while len(masses) > 1:
            # Pairs of the shortest first: most convolutions are then of short arrays.
            masses.sort(key=len)
            pairs = zip(masses[::2], masses[1::2], strict=False)
            masses = [np.convolve(*pair) for pair in pairs] + masses[len(masses) // 2 * 2 :]
        return masses[0] if masses else np.ones(1)

    def _draw(self, block: int, label: str, size: int) -> Iterator[DoubleArray]:
        edges = np.cumsum(self._probabilities)[:-1]
        for first in range(0, len(self._groups), _CHUNK):
            groups, inverse = np.unique(self._groups[first : first + _CHUNK], return_inverse=True)
            uniforms = np.stack(
                [self._secret.uniforms(label, size, index=(block << 32) | int(g)) for g in groups]
            )
            outcomes = np.searchsorted(edges, uniforms, side="right")[inverse.reshape(-1)]
            kinds = self._kinds[first : first + _CHUNK, None]
            steps = self._steps[kinds, outcomes]
            yield (self._least + self._step * steps).astype(np.float64)


def _group_masses(sums: IntArray, probabilities: DoubleArray) -> DoubleArray:
    """The probability of each number of steps of one group, from its sum per outcome, (o,)."""
    return np.bincount(sums, weights=probabilities).astype(np.float64)


def _power(mass: DoubleArray, times: int) -> DoubleArray:
    """The mass function of the sum of this many copies, by squaring."""
    result = np.ones(1)
    while times:
        if times % 2:
            result = np.convolve(result, mass)
        times //= 2
        if times:
            mass = np.convolve(mass, mass)
    return result
