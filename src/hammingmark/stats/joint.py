"""One p-value for all that a verdict claims: of the whole text, and of its best passage.

The text and each draw of the null distribution have two scores. Let p_i be the weight of those that
reach the first score of number i, q_i the same for the second, and T_i the smaller of the two.
T is computed alike for the text and for the draws, which are exchangeable with it, so the weight of
those whose T is at most that of the text is a p-value. It lies between min(p, q) and 2 min(p, q):
the more the two tests agree, the less it costs to make both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DoubleArray = NDArray[np.float64]

BOTH = 2.0
"""The number of p-values, by which the smaller one is multiplied (Bonferroni's correction)."""

_TIE = 1e-9


def either(p_value: float, other: float) -> float:
    """A p-value for two tests whose joint distribution is not known (Bonferroni's correction)."""
    return min(1.0, BOTH * min(p_value, other))


def joint_p_value(first: DoubleArray, second: DoubleArray, weights: DoubleArray) -> float:
    """The weight of all whose smaller tail is at most that of the text, over their number.

    Args:
        first: the first score of the text and then of K draws, (K + 1,). That of the text may be
            lowered a little, so that ties with it count in spite of rounding.
        second: the second scores, (K + 1,).
        weights: dP/dQ of the text and of each draw, all 1 if they are drawn from P, (K + 1,).
    """
    smaller = smaller_tails(first, second, weights)
    reached = weights[smaller <= smaller[0] * (1.0 + _TIE)].sum()
    return min(1.0, float(reached) / len(weights))


def smaller_tails(first: DoubleArray, second: DoubleArray, weights: DoubleArray) -> DoubleArray:
    """T, the smaller of the total weights that reach the two scores of each, (k,)."""
    return np.minimum(tails(first, weights), tails(second, weights))


def tails(scores: DoubleArray, weights: DoubleArray) -> DoubleArray:
    """The total weight of the scores that reach each score, its own included: (k,)."""
    order = np.argsort(scores)
    ascending = scores[order]
    above = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    places = np.searchsorted(ascending, scores - _TIE * np.maximum(1.0, np.abs(scores)))
    reached: DoubleArray = above[places]
    return reached
