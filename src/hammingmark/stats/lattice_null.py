"""The null distribution of sums of independent, identically distributed lattice increments."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.key import Secret
from hammingmark.protocols import ComputedNull
from hammingmark.records import Power
from hammingmark.stats.joint import BOTH
from hammingmark.stats.sums import SMALLEST, Increments

DoubleArray = NDArray[np.float64]

_BLOCK = 1000  # draws in a block
_CHUNK = 256  # units in a chunk, so that memory does not grow with the text
_EXACT = 1e-6  # the p-value of a window is exact down to here, below it is an upper bound
_LARGEST = 1e9  # a score that no window has
_FIRST_UNITS = 200  # units for which power is computed first, because it only grows with them
_CERTAIN = 0.99  # power from which it is not computed for more units
_MOST_UNITS = 5000  # units for which power is computed at most


class LatticeNull:
    """The null distribution of a sum of such increments, exact by convolution.

    Args:
        counted: which units count, (u,); the increments of the others are 0.
        increments: the distribution of the increment of a counted unit.
        centre: what is subtracted from each before windows are compared, a value on the lattice.
        secret: the secret of the key, for draws.
        description: how the distribution is known.
        ratios: the distribution of the log-likelihood ratio of a unit, marked against unmarked, to
            estimate the power of the test; None if it is not known.
        gain: what a marked unit adds on average to the sum of a window; None if it is not known.
    """

    draws = 0

    def __init__(
        self,
        counted: NDArray[np.bool_],
        increments: Increments,
        *,
        centre: float,
        secret: Secret,
        description: str,
        ratios: Increments | None = None,
        gain: float | None = None,
    ) -> None:
        self._secret = secret
        self.counted = counted
        self.description = description
        self._units = int(counted.sum())
        self._increments = increments
        self._centre = centre
        self._ratios = ratios
        self._gain = gain

    @cached_property
    def centre(self) -> DoubleArray:
        """What is subtracted from each increment before windows are compared, (u,)."""
        return np.where(self.counted, self._centre, 0.0)

    @cached_property
    def best(self) -> DoubleArray:
        """The largest increment that any key could give each unit, (u,)."""
        return np.where(self.counted, self._increments.best, 0.0)

    @property
    def computed(self) -> ComputedNull:
        """This distribution."""
        return self

    @property
    def attainable(self) -> float:
        """The p-value of the largest sum that a key can give."""
        return self.p_value(self.best)

    def p_value(self, increments: DoubleArray) -> float:
        """The probability of a sum as large as that of these increments, (u,)."""
        return max(SMALLEST, self._increments.survival(self._units, float(increments.sum())))

    def window_p_value(self, increments: DoubleArray, window: slice) -> float:
        """The probability that any window has a sum as large as this one, or a bound on it.

        It is exact down to 1e-6. Smaller probabilities would take ever longer to compute, so they
        are replaced by an upper bound, which is larger by a constant factor.
        """
        score = float((increments - self.centre)[window].sum())
        bound = self._increments.scan_bound(self._units, score, centre=self._centre)
        exact = self._increments.scan_survival(
            self._units, min(score, self._farthest), centre=self._centre
        )
        return max(SMALLEST, min(bound, exact))

    def joint_p_value(self, increments: DoubleArray) -> float | None:
        """None: the joint distribution is not computed."""
        return None

    def power(self, level: float) -> Power:
        """How often marked texts as written reach a level.

        How much of the mark rewording leaves is not known.
        """
        return Power(self._share(level), self._share(level / BOTH), passage=self._passage(level))

    def _share(self, level: float) -> float | None:
        """The probability that a marked text reaches a level by the likelihood-ratio test."""
        if self._ratios is None:
            return None
        power = self._ratios.power(min(self._units, _FIRST_UNITS), level)
        if self._units <= _FIRST_UNITS or power >= _CERTAIN:
            return power
        return self._ratios.power(min(self._units, _MOST_UNITS), level)

    def blocks(self) -> Iterator[Iterator[DoubleArray]]:
        """Independent draws, with random numbers from the secret."""
        return (self._draw(block) for block in count())

    def _draw(self, block: int) -> Iterator[DoubleArray]:
        for chunk, first in enumerate(range(0, max(1, len(self.counted)), _CHUNK)):
            counted = self.counted[first : first + _CHUNK, None]
            index = (block << 32) | chunk
            uniforms = self._secret.uniforms("null", len(counted) * _BLOCK, index=index)
            increments = self._increments.quantiles(uniforms.reshape(-1, _BLOCK))
            yield np.where(counted, increments, 0.0)

    def _passage(self, level: float) -> int | None:
        """The least length at which the expected sum of a passage reaches a level."""
        if self._gain is None or self._gain <= 0.0:
            return None
        gain, lengths = self._gain, range(1, self._units)
        place = bisect_left(lengths, True, key=lambda n: self._bound(n * gain) <= level / BOTH)
        return lengths[place] if place < len(lengths) else None

    @cached_property
    def _farthest(self) -> float:
        """The score from which the bound replaces the exact probability."""
        low, high = 0.0, 1.0
        while self._bound(high) > _EXACT and high < _LARGEST:
            low, high = high, 2.0 * high
        for _ in range(20):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self._bound(middle) > _EXACT else (low, middle)
        return high

    def _bound(self, score: float) -> float:
        return self._increments.scan_bound(max(1, self._units), score, centre=self._centre)
