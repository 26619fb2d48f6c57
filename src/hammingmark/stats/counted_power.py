"""The power of a test whose null distribution is counted in draws.

Given a marked text, the probability that a key marked it is proportional to the key's likelihood
ratio. So reference keys weighted by the ratios of a text represent the keys that marked it, and the
share of that weight above the critical score is the power. Of a long text hardly any key has a
weight; but the ratio is a product over units, and keys weighted by the ratio of one unit show its
increments in marked text. The sum of a long marked text is taken as normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hammingmark.protocols import SignificanceTest
from hammingmark.records import Power
from hammingmark.stats import references

DoubleArray = NDArray[np.float64]
Blocks = Callable[[], Iterator[Iterator[DoubleArray]]]

FREE = 0.05
"""The share of the sentences of marked text that were never constrained, such as fallbacks."""


_SHORT = 10  # units of a text up to which more draws are weighted
_DRAWS = 1000, 4000  # draws that are weighted: of a long text, of a short one
_ENOUGH = 10.0  # keys that must share the weight


@dataclass(frozen=True)
class MarkedText:
    """What a marked text is like.

    Attributes:
        weights: of the first draws, which add up to 1, (k,).
        means: the mean increment of each unit, (u,).
        deviation: the standard deviation of their sum, if they are independent of each other.
    """

    weights: DoubleArray
    means: DoubleArray
    deviation: float


@dataclass(frozen=True)
class CountedPower:
    """The power of one test.

    Attributes:
        test: the test of a text.
        sums: the sum of each draw, (k,).
        maxima: the sum of its best window, (k,).
    """

    test: SignificanceTest
    sums: DoubleArray
    maxima: DoubleArray

    def at(self, level: float) -> Power:
        """How often marked texts like this one reach a level."""
        as_written = self._share(self._as_written, level)
        reworded = self._share(self._reworded, level)
        if as_written is not None and reworded is not None:
            reworded = min(reworded, as_written)  # an estimate may be larger by chance
        return Power(
            mean=references.power(self.sums, level=level) if self.test.is_ratio else None,
            as_written=as_written,
            reworded=reworded,
            passage=self._passage(level),
        )

    def _share(self, marked: MarkedText | None, level: float) -> float | None:
        """The share of marked texts that reach a level; None if they are not known."""
        if marked is None:
            return None
        critical = references.critical_score(self.sums, level=level)
        is_short = len(self.test.increments) <= _SHORT
        if is_short and float((marked.weights**2).sum()) <= 1.0 / _ENOUGH:
            return float(marked.weights[self.sums[: len(marked.weights)] > critical].sum())
        deviation = self._dependence * marked.deviation
        excess = float(marked.means.sum()) - critical
        return NormalDist().cdf(excess / deviation) if deviation > 0.0 else float(excess > 0.0)

    def _passage(self, level: float) -> int | None:
        """The least length at which the expected sum of a passage is above the critical one."""
        if self._as_written is None:
            return None
        counted = self.test.best != 0.0
        gains = (self._as_written.means - self.test.centre)[counted]
        gain = float(gains.mean()) if len(gains) else 0.0
        if gain <= 0.0:
            return None
        length = math.floor(references.critical_score(self.maxima, level=level) / gain) + 1
        return length if length < len(gains) else None

    @cached_property
    def _dependence(self) -> float:
        """How much more the sum of an unmarked text varies than if its units were independent."""
        independent = math.sqrt(float(self._own.var(axis=1).sum()))
        return float(self.sums.std()) / independent if independent > 0.0 else 1.0

    @cached_property
    def _own(self) -> DoubleArray:
        """The increments of the first draws, (u, k)."""
        return self._first(self.test.null.blocks)

    @cached_property
    def _as_written(self) -> MarkedText | None:
        return self._marked(self.test.alternatives.as_written)

    @cached_property
    def _reworded(self) -> MarkedText | None:
        return self._marked(self.test.alternatives.reworded)

    def _marked(self, blocks: Blocks | None) -> MarkedText | None:
        """What a marked text is like, from the log-likelihood ratios of draws."""
        if blocks is None:
            return None
        ratios = self._first(blocks)
        totals = ratios.sum(axis=0)
        weights = np.exp(totals - totals.max())
        shares = np.exp(ratios)
        shares /= shares.sum(axis=1, keepdims=True)
        means = (shares * self._own).sum(axis=1)
        variances = (shares * np.square(self._own - means[:, None])).sum(axis=1)
        return MarkedText(weights / weights.sum(), means, math.sqrt(float(variances.sum())))

    def _first(self, blocks: Blocks) -> DoubleArray:
        """The first draws, (u, k)."""
        wanted = min(len(self.sums), _DRAWS[len(self.test.increments) <= _SHORT])
        blocks_read: list[DoubleArray] = []
        for chunks in blocks():
            blocks_read.append(np.concatenate(list(chunks)))
            if len(blocks_read) * blocks_read[0].shape[1] >= wanted:
                break
        return np.concatenate(blocks_read, axis=1)[:, :wanted]
