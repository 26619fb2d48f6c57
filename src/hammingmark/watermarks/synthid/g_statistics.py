"""What the g-values of a token say: their mean, a weighted mean, and a likelihood ratio.

Under keys that a text does not know, g-values are independent bits. Each statistic takes the
g-values of a token to a value on a lattice, so that the distribution of a token's value, and by
convolution that of a text's sum (``sums.py``), is computed and not approximated.
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

_NAT = 16  # steps of a log-likelihood ratio of 1
_FINE = 64  # steps of a single depth's in each of those


class GStatistic(Protocol):
    """A statistic of one token's g-values."""

    @property
    def increments(self) -> Increments:
        """Its distribution where no mark is."""

    @property
    def centre(self) -> float:
        """What to take off before windows are compared, on the lattice."""

    @property
    def is_ratio(self) -> bool:
        """Whether it is a log-likelihood ratio."""

    def of(self, g_values: Bits) -> DoubleArray:
        """Its values: (..., depth) to (...)."""


class WeightedMean:
    """A weighted mean of the g-values, rounded to a lattice.

    Args:
        weights: whole numbers, (depth,).
        parts: steps of the lattice between 0 and 1.
        share: the share of ones among g-values.
        excess: what marked tokens have above it on average, or so; windows are compared from half
            of it on.
    """

    is_ratio = False

    def __init__(
        self, weights: NDArray[np.int64], *, parts: int, share: float, excess: float
    ) -> None:
        self._weights = weights.astype(np.float32)  # sums of a few thousand are exact
        self._parts = parts
        self._share = share
        total = int(weights.sum())
        sums = np.arange(total + 1)
        self._steps = (2 * parts * sums + total) // (2 * total)
        # Above the mean of unmarked tokens, or windows would grow without end.
        above = math.floor(share * parts) + 1
        self.centre = max(round((share + excess / 2.0) * parts), above) / parts

    @cached_property
    def increments(self) -> Increments:
        """Each depth adds its weight with the probability of a one."""
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
    """How much likelier the g-values are for a marked token, as a logarithm, on a lattice.

    In a match of two at depth l the tokens differ with probability q_l, and then the one with
    g = 1 wins: a marked token has P(g_l = 1) = (1 + q_l / 2) / 2. How likely two tokens differ
    depends on how sure the model was, of which the earlier g-values tell something:

        logit q_l = level_l + slope_l (ones so far - half of the depths so far)

    This is the Bayesian detector of Dathathri et al. (2024) with one slope for all earlier depths
    in place of one for each. What is known so far is then a count, and the distribution of the
    ratio is exact.

    Args:
        level: (depth,).
        slope: (depth,).
        share: the share of ones among g-values where no mark is.
    """

    is_ratio = True
    centre = 0.0

    def __init__(self, level: DoubleArray, slope: DoubleArray, *, share: float) -> None:
        self._share = share
        depth = len(level)
        ones = np.arange(depth + 1) - np.arange(depth)[:, None] / 2.0
        differ = 1.0 / (1.0 + np.exp(-(level[:, None] + slope[:, None] * ones)))
        ratios = np.log(np.stack([1.0 - differ / 2.0, 1.0 + differ / 2.0], axis=-1))
        self._told = np.rint(ratios * _NAT * _FINE).astype(np.int64)  # (depth, depth + 1, 2)

    @cached_property
    def increments(self) -> Increments:
        """Depth by depth, together with the number of ones so far."""
        depth = len(self._told)
        known = [self._told[place, : place + 1] for place in range(depth)]
        low = sum(int(each.min()) for each in known)
        high = sum(int(each.max()) for each in known)
        mass = np.zeros((depth + 1, high - low + 1))
        mass[0, -low] = 1.0  # ones so far, and the ratio so far
        for place in range(depth):
            moved = np.zeros_like(mass)
            for ones in range(place + 1):
                for bit, probability in enumerate((1.0 - self._share, self._share)):
                    shifted = np.roll(mass[ones], self._told[place, ones, bit])
                    moved[ones + bit] += probability * shifted
            mass = moved
        values = (np.arange(low, high + 1) + _FINE // 2) // _FINE
        first = int(values[0])
        rounded = np.bincount(values - first, weights=mass.sum(axis=0))
        reached = int(np.flatnonzero(rounded)[-1])  # depths may not have their best together
        return Increments(first, rounded[: reached + 1].astype(np.float64), step=1.0 / _NAT)

    def of(self, g_values: Bits) -> DoubleArray:
        """The rounded ratios: (..., depth) to (...)."""
        fine = np.zeros(g_values.shape[:-1], np.int64)
        ones = np.zeros_like(fine)
        for place, told in enumerate(self._told):
            bits = g_values[..., place].astype(np.int64)
            fine += told[ones, bits]
            ones += bits
        values: DoubleArray = ((fine + _FINE // 2) // _FINE) / _NAT
        return values


def falling_weights(depth: int) -> NDArray[np.int64]:
    """Weights that fall evenly from 10 to 1, as whole numbers: (depth,)."""
    return 10 * max(1, depth - 1) - 9 * np.arange(depth)


FORMAT = "hammingmark-tournament"
FILE = "likelihood.safetensors"
"""Beside this module; ``python -m research.training.tournament`` makes it."""


@dataclass(frozen=True)
class LikelihoodCard:
    """The parameters of `watermarks.synthid.g_statistics.LikelihoodRatio`.

    Attributes:
        level: (depth,).
        slope: (depth,).
        about: what they were fitted on, by name.
    """

    level: NDArray[np.float64]
    slope: NDArray[np.float64]
    about: Mapping[str, str | int | float] = field(default_factory=dict)

    def at(self, depth: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Level and slope for a tournament of this depth, (depth,) each.

        Of a deeper one than was fitted, the last depths are taken to be like the last known one.
        """
        places = np.minimum(np.arange(depth), len(self.level) - 1)
        return self.level[places], self.slope[places]


def save_card(card: LikelihoodCard) -> bytes:
    """A card as a safetensors file."""
    arrays = {"level": card.level, "slope": card.slope}
    return write_card(arrays, card.about, kind=FORMAT, dtype=np.float32)


def load_card(content: bytes) -> LikelihoodCard:
    """What `save_card` wrote."""
    arrays, about = read_card(content, kind=FORMAT)
    level, slope = (arrays[name].astype(np.float64) for name in ("level", "slope"))
    return LikelihoodCard(level, slope, about)


@lru_cache(maxsize=1)
def shipped_card() -> LikelihoodCard:
    """The card that comes with the package."""
    return load_card((resources("hammingmark.watermarks.synthid") / FILE).read_bytes())
