"""What tokens of marked text look like: an assumption about power, on which no p-value rests."""

from __future__ import annotations

import math

FREEDOM = 0.6
"""Share of what a mark could move that it does move: a model is not free in every token.

Between 0.6 and 0.9 in texts of the default model, which leaves more open than larger ones do.
"""


def marked_share(natural: float, most: float) -> float:
    """The share of valid tokens that is expected of marked text.

    Args:
        natural: the probability of a valid token where nothing is marked.
        most: the same where marked text may be anything, so that all tokens were equally likely.
    """
    return natural + FREEDOM * (most - natural)


def log_odds(marked: float, natural: float) -> float:
    """By how much the logarithm of the odds of a valid token rises."""
    return math.log(marked / (1.0 - marked)) - math.log(natural / (1.0 - natural))
