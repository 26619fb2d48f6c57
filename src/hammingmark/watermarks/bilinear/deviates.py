"""What a transition's score says for or against a mark."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.stats.sums import NormalIncrements

_STRICTEST, _LAXEST = 0.02, 0.9  # acceptance rates


@dataclass(frozen=True, slots=True)
class Alternative:
    """What marked text is expected to look like when it is judged.

    A wrong expectation costs power and nothing else: the null distribution does not depend on it.

    Attributes:
        free: probability that a transition was never constrained (an insertion, a fallback).
        edited: probability that its sentences were reworded.
        kept: correlation of a score before and after rewording.
    """

    free: float = 0.05
    edited: float = 0.5
    kept: float = 0.9

    def __post_init__(self) -> None:
        if not (0.0 < self.free < 1.0 and 0.0 <= self.edited <= 1.0 and 0.0 < self.kept < 1.0):
            raise InputError(
                "An alternative needs 0 < free < 1, 0 <= edited <= 1 and 0 < kept < 1."
            )


@lru_cache(maxsize=64)
def log_likelihood_ratio(
    acceptance: float, threshold: float, given: Alternative
) -> NormalIncrements:
    """log P(score | marked) / P(score | not), on the lattice.

    A marked score was at least T when it was written, which has probability a under the null.
    Reworded, z has become r z + √(1 - r²) ε, so that given its present value w it was at least T
    with probability Φ((r w - T) / √(1 - r²)). By Bayes' rule the ratio is the probability that it
    was, over a.
    """

    def worth(w: NDArray[np.float64]) -> NDArray[np.float64]:
        spread = math.sqrt(2.0 * (1.0 - given.kept**2))
        reworded = np.array([0.5 * math.erfc(-(given.kept * x - threshold) / spread) for x in w])
        was = (1.0 - given.edited) * (w >= threshold) + given.edited * reworded
        ratio: NDArray[np.float64] = np.log((1.0 - given.free) * was / acceptance + given.free)
        return ratio

    return NormalIncrements(worth, origin=threshold)


def acceptance_for(bits: float, transitions: int, *, power: float = 0.9) -> float:
    """The largest acceptance rate at which marked texts of so many transitions prove enough.

    That is, at which p is at most 2^-bits with at least this probability. By the alternative half
    of the sentences were reworded, so texts as written prove more.

    Raises:
        InputError: no rule can do it at any reasonable cost.
    """

    def proves(acceptance: float) -> bool:
        threshold = NormalDist().inv_cdf(1.0 - acceptance)
        increments = log_likelihood_ratio(acceptance, threshold, Alternative())
        return increments.power(transitions, 2.0**-bits) >= power

    places = range(round(_STRICTEST * 1000), round(_LAXEST * 1000) + 1)
    found = bisect_left(places, True, key=lambda place: not proves(place / 1000.0))
    if found == 0:
        raise InputError(
            f"{transitions} sentences cannot prove 2^-{bits:g}: ask for less, or for longer texts."
        )
    return places[found - 1] / 1000.0
