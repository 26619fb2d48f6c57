"""Null distributions: the distribution of a statistic over keys independent of the text.

A method chooses one for each of its tests. A threshold fitted on unmarked text (``calibration.py``)
serves methods and users that can use none of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.key import Secret
from hammingmark.protocols import ComputedNull
from hammingmark.records import Power
from hammingmark.stats.counted_power import FREE
from hammingmark.stats.joint import BOTH
from hammingmark.stats.lattice_null import LatticeNull
from hammingmark.stats.sums import SMALLEST, Increments

_PARTS = 16


@dataclass(frozen=True, slots=True)
class KeyRandomization:
    """The distribution over reference keys, which are drawn like the secret key and counted.

    Attributes:
        draws: returns blocks of increments without end, each in chunks along the text: (c, k).
    """

    draws: Callable[[], Iterator[Iterator[NDArray[np.float64]]]]

    @property
    def description(self) -> str:
        """How the distribution is known."""
        return "exact over reference keys"

    @property
    def computed(self) -> None:
        """None: draws are counted."""
        return None

    def blocks(self) -> Iterator[Iterator[NDArray[np.float64]]]:
        """The increments under reference keys."""
        return self.draws()


class BinomialNull(LatticeNull):
    """The distribution of the number of valid units, each valid independently with one probability.

    The increments are 1 for a valid unit, such as a green token, and 0 for any other. A repeated
    unit is valid whenever the first one is, and so counts once.

    Args:
        counted: which units count, (u,); the increments of the others are 0.
        probability: the probability of a valid unit.
        secret: the secret of the key, for draws.
        marked: the probability of a valid unit in marked text, to estimate the power of the test;
            None if it is not known.
    """

    def __init__(
        self,
        counted: NDArray[np.bool_],
        probability: float,
        secret: Secret,
        *,
        marked: float | None = None,
    ) -> None:
        # The middle between the mean of unmarked text and 1, rounded to a sixteenth, or to a
        # smaller fraction that lies strictly between the two.
        parts = max(_PARTS, math.ceil(2.0 / (1.0 - probability)))
        centre = Fraction(round((1.0 + probability) / 2.0 * parts), parts)
        super().__init__(
            counted,
            _votes(probability, centre.denominator),
            centre=float(centre),
            secret=secret,
            description="exact binomial",
            gain=None if marked is None else marked - float(centre),
        )
        self._natural = probability
        self._marked = marked

    def _share(self, level: float) -> float | None:
        """The probability that this many units of marked text reach a level."""
        if self._marked is None:
            return None
        critical = _votes(self._natural, 1).critical_steps(self._units, level)
        return _votes(self._marked, 1).survival(self._units, critical)


class NormalApproximation:
    """The z-test with a known mean, for methods without a secret.

    There is no key to compare with others, so the test is not exact: it holds for texts whose units
    have counts with mean γ, independently of each other. Human text of another genre than that on
    which γ was measured may have larger counts.

    Args:
        units: u, the number of units.
        expected: γ, the mean count of a unit in unmarked text; a count lies between 0 and 1.
        secret: the secret of the key, for draws.
    """

    description = "z-test with γ of human text, not exact"
    draws = 0

    def __init__(self, units: int, expected: float, secret: Secret) -> None:
        self._units = units
        self._expected = expected
        self._secret = secret

    @property
    def computed(self) -> ComputedNull:
        """This distribution."""
        return self

    @property
    def attainable(self) -> float:
        """The p-value of a text whose units all have the count 1."""
        return self.p_value(np.ones(self._units))

    def p_value(self, increments: NDArray[np.float64]) -> float:
        """P(Z >= z) for the sum of these counts, (u,).

        It is at least γ^u, the probability that all u counts are 1. For few units the normal
        approximation could be smaller than that.
        """
        return max(SMALLEST, self._normal_tail(increments), self._expected ** len(increments))

    def window_p_value(self, increments: NDArray[np.float64], window: slice) -> float:
        """The same for one window, with Bonferroni's correction for all windows.

        A window may have few units, for which the normal approximation is poor. So the p-value is
        at least Hoeffding's bound on the tail, exp(-n KL(h/n ‖ γ)).
        """
        counts = increments[window]
        tail = max(self._normal_tail(counts), self._bound(counts))
        return min(1.0, max(SMALLEST, self._units * (self._units + 1) / 2 * tail))

    def joint_p_value(self, increments: NDArray[np.float64]) -> float | None:
        """None: the joint distribution is not computed."""
        return None

    def power(self, level: float) -> Power:
        """How often a text as written reaches a level, if all but a few of its counts are 1."""
        votes = _votes(1.0 - FREE * (1.0 - self._expected), 1)
        places = np.arange(self._units)
        least = bisect_left(
            range(self._units + 1),
            True,
            key=lambda count: self.p_value((places < count).astype(float)) <= level / BOTH,
        )
        return Power(as_written=votes.survival(self._units, least))

    def blocks(self) -> Iterator[Iterator[NDArray[np.float64]]]:
        """Votes that are valid with probability γ, with random numbers from the secret."""
        return BinomialNull(np.ones(self._units, np.bool_), self._expected, self._secret).blocks()

    def _normal_tail(self, increments: NDArray[np.float64]) -> float:
        deviation = math.sqrt(len(increments) * self._expected * (1.0 - self._expected))
        z = (float(increments.sum()) - self._expected * len(increments)) / deviation
        return 0.5 * math.erfc(z / math.sqrt(2.0))

    def _bound(self, increments: NDArray[np.float64]) -> float:
        mean, expected = min(1.0, float(increments.mean())), self._expected
        if mean <= expected:
            return 1.0
        divergence = mean * math.log(mean / expected)
        if mean < 1.0:
            divergence += (1.0 - mean) * math.log((1.0 - mean) / (1.0 - expected))
        return math.exp(-len(increments) * divergence)


@lru_cache(maxsize=64)
def _votes(probability: float, steps: int) -> Increments:
    """Votes of 0 or 1 on a lattice with this many steps between them."""
    mass = np.zeros(steps + 1)
    mass[0], mass[-1] = 1.0 - probability, probability
    return Increments(0, mass, step=1.0 / steps)
