"""Statistics of a token's g-values: their mean, a weighted mean, and a likelihood ratio.

Under keys that are independent of the text, g-values are independent bits. Each statistic maps the
g-values of a token to a value on a lattice, so that the distribution of a token's value, and by
convolution that of a text's sum (``stats.sums``), is computed and not approximated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.resources import files as resources
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hammingmark.artifacts.card import read_card, write_card
from hammingmark.stats.sums import Increments

DoubleArray = NDArray[np.float64]
Bits = NDArray[np.integer]

PARTS = 128
"""Steps of the weighted mean between 0 and 1."""

_NAT = 16  # lattice steps in a log-likelihood ratio of 1
_FINE = 64  # finer steps of a single depth's ratio in each lattice step


class GStatistic(Protocol):
    """A statistic of one token's g-values."""

    @property
    def increments(self) -> Increments:
        """Its distribution in unmarked text."""

    @property
    def centre(self) -> float:
        """What to take off each value before windows are compared, on the lattice."""

    @property
    def gain(self) -> float:
        """What a marked token adds on average, above the centre."""

    @property
    def is_ratio(self) -> bool:
        """Whether it is a log-likelihood ratio."""

    def of(self, g_values: Bits) -> DoubleArray:
        """The values of g-values: (..., depth) to (...)."""


class WeightedMean:
    """A weighted mean of the g-values, rounded to a lattice.

    Args:
        weights: integers, (depth,).
        parts: steps of the lattice between 0 and 1.
        share: the share of ones among g-values.
        excess: the approximate mean of marked tokens above that share; windows are compared from
            half of it on.
    """

    is_ratio = False

    def __init__(
        self, weights: NDArray[np.int64], *, parts: int, share: float, excess: float
    ) -> None:
        self._weights = weights.astype(np.float32)  # integer sums of a few thousand are exact
        self._parts = parts
        self._share = share
        total = int(weights.sum())
        sums = np.arange(total + 1)
        self._steps = (2 * parts * sums + total) // (2 * total)
        # Above the mean of unmarked tokens, because windows would otherwise grow without bound.
        above = math.floor(share * parts) + 1
        self.centre = max(round((share + excess / 2.0) * parts), above) / parts
        self.gain = share + excess - self.centre

    @cached_property
    def increments(self) -> Increments:
        """The distribution of the rounded mean: each depth adds its weight with P(g = 1)."""
        mass = np.ones(1)
        for weight in self._weights.astype(np.int64):
            longer = np.zeros(len(mass) + weight)
            longer[: len(mass)] += (1.0 - self._share) * mass
            longer[weight:] += self._share * mass
            mass = longer
        rounded = np.bincount(self._steps, weights=mass, minlength=self._parts + 1)
        return Increments(0, rounded.astype(np.float64), step=1.0 / self._parts)

    def of(self, g_values: Bits) -> DoubleArray:
        """The rounded means: (..., depth) to (...)."""
        sums = (g_values.astype(np.float32) @ self._weights).astype(np.int64)
        values: DoubleArray = self._steps[sums] / self._parts
        return values


class LikelihoodRatio:
    """The log-likelihood ratio of the g-values of marked against unmarked tokens, on a lattice.

    In a match of two at depth l the tokens differ with probability q_l, and then the one with
    g = 1 wins: a marked token has P(g_l = 1) = (1 + q_l / 2) / 2. q_l depends on how certain the
    model was, about which the earlier g-values give some information:

        logit q_l = level_l + slope_l (ones so far - half of the depths so far)

    This is the Bayesian detector of Dathathri et al. (2024) with one slope for all earlier depths
    instead of one for each. The state is then a count, and the distribution of the ratio is exact.

    Args:
        level: (depth,).
        slope: (depth,).
        share: the share of ones among g-values in unmarked text.
    """

    is_ratio = True
    centre = 0.0

    def __init__(self, level: DoubleArray, slope: DoubleArray, *, share: float) -> None:
        self._share = share
        depth = len(level)
        ones = np.arange(depth + 1) - np.arange(depth)[:, None] / 2.0
        differ = 1.0 / (1.0 + np.exp(-(level[:, None] + slope[:, None] * ones)))
        ratios = np.log(np.stack([1.0 - differ / 2.0, 1.0 + differ / 2.0], axis=-1))
        self._ratios = np.rint(ratios * _NAT * _FINE).astype(np.int64)  # (depth, depth + 1, 2)

    @property
    def gain(self) -> float:
        """The mean ratio of a marked token."""
        return self.increments.marked_mean

    @cached_property
    def increments(self) -> Increments:
        """The distribution of the ratio, computed depth by depth with the number of ones so far."""
        depth = len(self._ratios)
        reachable = [self._ratios[place, : place + 1] for place in range(depth)]
        low = sum(int(ratios.min()) for ratios in reachable)
        high = sum(int(ratios.max()) for ratios in reachable)
        mass = np.zeros((depth + 1, high - low + 1))
        mass[0, -low] = 1.0  # ones so far, and the ratio so far
        for place in range(depth):
            moved = np.zeros_like(mass)
            for ones in range(place + 1):
                for bit, probability in enumerate((1.0 - self._share, self._share)):
                    shifted = np.roll(mass[ones], self._ratios[place, ones, bit])
                    moved[ones + bit] += probability * shifted
            mass = moved
        values = (np.arange(low, high + 1) + _FINE // 2) // _FINE
        first = int(values[0])
        rounded = np.bincount(values - first, weights=mass.sum(axis=0))
        reached = int(np.flatnonzero(rounded)[-1])  # depths may not reach their maxima together
        return Increments(first, rounded[: reached + 1].astype(np.float64), step=1.0 / _NAT)

    def of(self, g_values: Bits) -> DoubleArray:
        """The rounded ratios: (..., depth) to (...)."""
        fine = np.zeros(g_values.shape[:-1], np.int64)
        ones = np.zeros_like(fine)
        for place, ratios in enumerate(self._ratios):
            bits = g_values[..., place].astype(np.int64)
            fine += ratios[ones, bits]
            ones += bits
        values: DoubleArray = ((fine + _FINE // 2) // _FINE) / _NAT
        return values


def falling_weights(depth: int) -> NDArray[np.int64]:
    """Weights that decrease evenly from 10 to 1, scaled to integers: (depth,)."""
    return 10 * max(1, depth - 1) - 9 * np.arange(depth)


FORMAT = "hammingmark-tournament"
FILE = "likelihood.safetensors"
"""The file beside this module, which ``python -m research.training.tournament`` writes."""


@dataclass(frozen=True)
class LikelihoodCard:
    """Fitted parameters of `LikelihoodRatio`, and their origin.

    Attributes:
        level: (depth,).
        slope: (depth,).
        about: the data and settings of the fit, by name.
    """

    level: NDArray[np.float64]
    slope: NDArray[np.float64]
    about: Mapping[str, str | int | float] = field(default_factory=dict)

    def at(self, depth: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Level and slope for a tournament of this depth, (depth,) each.

        Depths beyond the fitted ones have the parameters of the last fitted depth.
        """
        places = np.minimum(np.arange(depth), len(self.level) - 1)
        return self.level[places], self.slope[places]


def save_card(card: LikelihoodCard) -> bytes:
    """A card as a safetensors file."""
    arrays = {"level": card.level, "slope": card.slope}
    return write_card(arrays, card.about, kind=FORMAT, dtype=np.float32)


def load_card(content: bytes) -> LikelihoodCard:
    """The card in a file that `save_card` wrote."""
    arrays, about = read_card(content, kind=FORMAT)
    level, slope = (arrays[name].astype(np.float64) for name in ("level", "slope"))
    return LikelihoodCard(level, slope, about)


@lru_cache(maxsize=1)
def shipped_card() -> LikelihoodCard:
    """The card that comes with the package."""
    return load_card((resources("hammingmark.watermarks.synthid") / FILE).read_bytes())
