"""What a transition's score says for or against a mark."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hammingmark.core.sums import NormalIncrements
from hammingmark.errors import InputError


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

    return NormalIncrements(worth, origin=threshold, is_ratio=True)
