"""Units whose increments are independent and alike over keys, with values on a lattice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.key import Secret
from hammingmark.protocols import ComputedNull
from hammingmark.stats.sums import SMALLEST, Increments

DoubleArray = NDArray[np.float64]

_BLOCK = 1000
_CHUNK = 256  # units at a time, so that memory does not grow with the text
_EXACT = 1e-6  # down to here the p-value of a window is exact, below it an upper bound
_LARGEST = 1e9  # a score that no window has
_ENOUGH = 200  # units of which power is computed first: it only grows
_CERTAIN = 0.99  # from which it need not be computed of more
_MOST = 5000  # units of which it is computed at all


class LatticeNull:
    """The null distribution of a sum of such increments, exact by convolution.

    Args:
        counted: which units count, (u,); the increments of the others are 0.
        increments: of a unit that counts.
        centre: what to take off each of them before windows are compared, on the lattice.
        secret: of the key, for draws.
        words: how the distribution is known.
        ratios: of the log-likelihood ratio of a unit, marked against not, by which the power of
            the test is estimated; None where it is not known.
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
    ) -> None:
        self._secret = secret
        self.counted = counted
        self.description = description
        self._units = int(counted.sum())
        self._increments = increments
        self._centre = centre
        self._ratios = ratios

    @cached_property
    def centre(self) -> DoubleArray:
        """What to take off each increment before windows are compared, (u,)."""
        return np.where(self.counted, self._centre, 0.0)

    @cached_property
    def best(self) -> DoubleArray:
        """The most that any key could give each unit, (u,)."""
        return np.where(self.counted, self._increments.best, 0.0)

    @property
    def computed(self) -> ComputedNull:
        """Itself."""
        return self

    @property
    def attainable(self) -> float:
        """The p-value of the best."""
        return self.p_value(self.best)

    def p_value(self, own: DoubleArray) -> float:
        """The probability of a sum as large as that of these increments, (u,)."""
        return max(SMALLEST, self._increments.survival(self._units, float(own.sum())))

    def window_p_value(self, own: DoubleArray, window: slice) -> float:
        """The probability that any window has a sum as large as this one, or a bound on it.

        Exact down to 1e-6. Below, where exactness would take the longer the smaller it is, it is
        a bound that lies above it by a constant factor.
        """
        score = float((own - self.centre)[window].sum())
        bound = self._increments.scan_bound(self._units, score, centre=self._centre)
        exact = self._increments.scan_survival(
            self._units, min(score, self._farthest), centre=self._centre
        )
        return max(SMALLEST, min(bound, exact))

    def power(self, level: float) -> float | None:
        """How often a marked text would reach a level by the likelihood ratio, the best test."""
        if self._ratios is None:
            return None
        power = self._ratios.power(min(self._units, _ENOUGH), level)
        if self._units <= _ENOUGH or power >= _CERTAIN:
            return power
        return self._ratios.power(min(self._units, _MOST), level)

    def blocks(self) -> Iterator[Iterator[DoubleArray]]:
        """Independent draws, whose numbers come from the secret."""
        return (self._draw(block) for block in count())

    def _draw(self, block: int) -> Iterator[DoubleArray]:
        for part, first in enumerate(range(0, max(1, len(self.counted)), _CHUNK)):
            counted = self.counted[first : first + _CHUNK, None]
            index = (block << 32) | part
            uniforms = self._secret.uniforms("null", len(counted) * _BLOCK, index=index)
            drawn = self._increments.quantiles(uniforms.reshape(-1, _BLOCK))
            yield np.where(counted, drawn, 0.0)

    @cached_property
    def _farthest(self) -> float:
        """The score from which the bound is small enough."""
        low, high = 0.0, 1.0
        while self._bound(high) > _EXACT and high < _LARGEST:
            low, high = high, 2.0 * high
        for _ in range(20):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self._bound(middle) > _EXACT else (low, middle)
        return high

    def _bound(self, score: float) -> float:
        return self._increments.scan_bound(max(1, self._units), score, centre=self._centre)
