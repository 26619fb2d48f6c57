"""The tournament of SynthID-Text, on probabilities.

At each depth every token meets others drawn from the same distribution, and one of those with the
larger g-value is kept. With k to a match and G the total probability of tokens with g = 1,

    p <- p (1 - (1 - G)^k) / G   where g = 1,        p <- p (1 - G)^(k - 1)   where g = 0

which for k = 2 is p (1 + g - G), and then the mean over fair bits g is p itself.
"""

from __future__ import annotations

from typing import Any

Array = Any
"""Of numpy or of torch."""


def play(shares: Array, g_values: Array, *, leaves: int = 2) -> Array:
    """The distributions of the winners.

    Args:
        shares: probabilities of k tokens, (..., k), which add up to 1.
        g_values: 0 or 1, (..., k, depth).
        leaves: how many meet in a match.

    Returns:
        (..., k).
    """
    for depth in range(g_values.shape[-1]):
        green = g_values[..., depth]
        # Rounding may lift G above 1, and no share may fall below 0.
        rest = (1.0 - (green * shares).sum(-1)[..., None]).clip(0.0, None)
        least, more = 1.0, 0.0  # (1 - G)^(j - 1), and what a green token gets beyond it
        for _ in range(leaves - 1):
            more = more + least
            least = least * rest
        shares = shares * (least + green * more)
    return shares
