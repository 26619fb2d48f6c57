"""Null distributions: how a statistic behaves over keys that a text does not know.

A method says for each of its tests which of them holds. A threshold that was fitted on unmarked
text (``calibration.py``) is the third way, for methods or users that must do without either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.key import Secret
from hammingmark.protocols import ComputedNull
from hammingmark.stats.lattice_null import LatticeNull
from hammingmark.stats.sums import SMALLEST, Increments

_PARTS = 16


@dataclass(frozen=True, slots=True)
class KeyRandomization:
    """The same statistic under reference keys, drawn like the secret one and counted.

    Attributes:
        draws: begins block after block of increments, each chunk by chunk along the text: (c, k).
    """

    draws: Callable[[], Iterator[Iterator[NDArray[np.float64]]]]

    @property
    def description(self) -> str:
        """How it is known."""
        return "exact over reference keys"

    @property
    def computed(self) -> None:
        """None: draws are counted."""
        return None

    def blocks(self) -> Iterator[Iterator[NDArray[np.float64]]]:
        """The increments under reference keys."""
        return self.draws()


class BinomialNull(LatticeNull):
    """Units that are valid independently of each other with one probability, as green tokens are.

    The increments are 1 for a valid unit and 0 for any other. A unit that comes again is valid
    again, and so counts once.

    Args:
        counted: which units count, (u,); the increments of the others are 0.
        probability: of a valid unit.
        secret: of the key, for draws.
        marked: probability of a valid unit in marked text, by which the power of the test is
            estimated; None where it is not known.
    """

    def __init__(
        self,
        counted: NDArray[np.bool_],
        probability: float,
        secret: Secret,
        *,
        marked: float | None = None,
    ) -> None:
        # The middle between the mean of unmarked text and 1, to a sixteenth, or so that there is
        # room on both sides.
        parts = max(_PARTS, math.ceil(2.0 / (1.0 - probability)))
        centre = Fraction(round((1.0 + probability) / 2.0 * parts), parts)
        super().__init__(
            counted,
            _votes(probability, centre.denominator),
            centre=float(centre),
            secret=secret,
            description="exact binomial",
        )
        self._natural = probability
        self._marked = marked

    def power(self, level: float) -> float | None:
        """How often so many units of marked text would reach a level."""
        if self._marked is None:
            return None
        critical = _votes(self._natural, 1).critical_steps(self._units, level)
        return _votes(self._marked, 1).survival(self._units, critical)


class NormalApproximation:
    """The z-test with a known mean, for methods that rest on no secret.

    There is no key to compare with others, so that nothing here is exact: the test holds for texts
    whose units count γ on average, independently of each other. Human text of another genre than
    that on which γ was measured may count more.

    Args:
        units: u, how many.
        expected: γ, the mean count of a unit in unmarked text; a count lies between 0 and 1.
        secret: of the key, for draws.
    """

    description = "z-test with γ of human text, not exact"
    draws = 0

    def __init__(self, units: int, expected: float, secret: Secret) -> None:
        self._units = units
        self._expected = expected
        self._secret = secret

    @property
    def computed(self) -> ComputedNull:
        """Itself."""
        return self

    @property
    def attainable(self) -> float:
        """The p-value of a text whose units all count."""
        return self.p_value(np.ones(self._units))

    def p_value(self, own: NDArray[np.float64]) -> float:
        """P(Z >= z) for the sum of these counts, (u,).

        No less than γ^u, the probability that all u units count: of a few units the normal
        distribution would promise more than that.
        """
        return max(SMALLEST, self._normal_tail(own), self._expected ** len(own))

    def window_p_value(self, own: NDArray[np.float64], window: slice) -> float:
        """The same for one window of all that there are, by Bonferroni's correction.

        A window may have a few units only, where the normal distribution says little. So
        Hoeffding's bound on the tail, exp(-n KL(h/n ‖ γ)), must be as small, too.
        """
        some = own[window]
        tail = max(self._normal_tail(some), self._bound(some))
        return min(1.0, max(SMALLEST, self._units * (self._units + 1) / 2 * tail))

    def power(self, level: float) -> float | None:
        """None: counts are no likelihood ratios."""
        return None

    def blocks(self) -> Iterator[Iterator[NDArray[np.float64]]]:
        """Votes that are valid with probability γ, whose numbers come from the secret."""
        return BinomialNull(np.ones(self._units, np.bool_), self._expected, self._secret).blocks()

    def _normal_tail(self, own: NDArray[np.float64]) -> float:
        deviation = math.sqrt(len(own) * self._expected * (1.0 - self._expected))
        z = (float(own.sum()) - self._expected * len(own)) / deviation
        return 0.5 * math.erfc(z / math.sqrt(2.0))

    def _bound(self, own: NDArray[np.float64]) -> float:
        mean, expected = min(1.0, float(own.mean())), self._expected
        if mean <= expected:
            return 1.0
        apart = mean * math.log(mean / expected)
        if mean < 1.0:
            apart += (1.0 - mean) * math.log((1.0 - mean) / (1.0 - expected))
        return math.exp(-len(own) * apart)


@lru_cache(maxsize=64)
def _votes(probability: float, steps: int) -> Increments:
    """A vote is so many steps of the lattice."""
    mass = np.zeros(steps + 1)
    mass[0], mass[-1] = 1.0 - probability, probability
    return Increments(0, mass, step=1.0 / steps)
