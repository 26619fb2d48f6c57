"""The log-likelihood ratio of a single score."""

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

_STRICTEST, _LAXEST = 0.02, 0.9  # acceptance rates that are searched


@dataclass(frozen=True, slots=True)
class Alternative:
    """How marked text is expected to look at detection.

    A wrong expectation costs only power: the null distribution does not depend on it.

    Attributes:
        free: the probability that a transition was never constrained (an insertion, a fallback).
        edited: the probability that its sentences were reworded.
        correlation: r, the correlation of a score before and after rewording.
    """

    free: float = 0.05
    edited: float = 0.5
    correlation: float = 0.9

    def __post_init__(self) -> None:
        if not (
            0.0 < self.free < 1.0 and 0.0 <= self.edited <= 1.0 and 0.0 < self.correlation < 1.0
        ):
            raise InputError(
                "An alternative needs 0 < free < 1, 0 <= edited <= 1 and 0 < correlation < 1."
            )


@lru_cache(maxsize=64)
def log_likelihood_ratio(
    acceptance: float, threshold: float, alternative: Alternative
) -> NormalIncrements:
    """log P(score | marked) / P(score | unmarked), on the lattice.

    A marked score was at least T when it was written, which has probability a under the null.
    Rewording turns z into r z + √(1 - r²) ε. Given its present value w, the original score was
    therefore at least T with probability Φ((r w - T) / √(1 - r²)). By Bayes' rule the ratio is this
    probability over a.
    """
    free, edited, r = alternative.free, alternative.edited, alternative.correlation

    def log_ratio(w: NDArray[np.float64]) -> NDArray[np.float64]:
        spread = math.sqrt(2.0 * (1.0 - r**2))
        reworded = np.array([0.5 * math.erfc(-(r * x - threshold) / spread) for x in w])
        accepted = (1.0 - edited) * (w >= threshold) + edited * reworded
        ratio: NDArray[np.float64] = np.log((1.0 - free) * accepted / acceptance + free)
        return ratio

    return NormalIncrements(log_ratio, origin=threshold)


def acceptance_for(bits: float, transitions: int, *, power: float = 0.9) -> float:
    """The largest acceptance rate at which marked texts of a length reach a p-value of 2^-bits.

    Under the alternative half of the sentences were reworded, so unedited texts have smaller
    p-values.

    Args:
        bits: the evidence that is required.
        transitions: the length of the texts.
        power: the least share of marked texts that must reach the p-value.

    Raises:
        InputError: no rule of reasonable cost reaches it.
    """

    def is_sufficient(acceptance: float) -> bool:
        threshold = NormalDist().inv_cdf(1.0 - acceptance)
        increments = log_likelihood_ratio(acceptance, threshold, Alternative())
        return increments.power(transitions, 2.0**-bits) >= power

    thousandths = range(round(_STRICTEST * 1000), round(_LAXEST * 1000) + 1)
    count = bisect_left(thousandths, True, key=lambda rate: not is_sufficient(rate / 1000.0))
    if count == 0:
        raise InputError(
            f"{transitions} sentences cannot reach a p-value of 2^-{bits:g}. Ask for less "
            "evidence, or for longer texts."
        )
    return thousandths[count - 1] / 1000.0
