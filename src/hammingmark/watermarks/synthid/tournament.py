"""The tournament of SynthID-Text, on probabilities.

At each depth every token is matched with others drawn from the same distribution, and one of those
with the largest g-value wins. With k tokens in a match and G the total probability of tokens with
g = 1,

    p <- p (1 - (1 - G)^k) / G   where g = 1,        p <- p (1 - G)^(k - 1)   where g = 0

which for k = 2 is p (1 + g - G), whose mean over fair bits g is p.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
"""An array of numpy or of torch."""


def play(shares: Array, g_values: Array, *, leaves: int = 2) -> Array:
    """The distributions of the winners.

    Args:
        shares: probabilities of k tokens, (..., k), which sum to 1.
        g_values: 0 or 1, (..., k, depth).
        leaves: the number of tokens in a match.

    Returns:
        (..., k).
    """
    for depth in range(g_values.shape[-1]):
        green = g_values[..., depth]
        # G may be rounded above 1, and no share may become negative.
        rest = (1.0 - (green * shares).sum(-1)[..., None]).clip(0.0, None)
        base, bonus = 1.0, 0.0  # (1 - G)^(j - 1), and what a token with g = 1 gets in addition
        for _ in range(leaves - 1):
            bonus = bonus + base
            base = base * rest
        shares = shares * (base + green * bonus)
    return shares


def is_new(windows: Array, length: int) -> Array:
    """Whether the context, the last ``length`` tokens, is complete and new.

    Args:
        windows: the tokens so far, oldest first, -1 before the beginning of a text: (B, W). The
            context is compared with the W - length contexts before it.
        length: h, the length of a context.

    Returns:
        (B,), truth values.
    """
    last = windows[..., -length:]
    earlier = windows.shape[-1] - length
    same = windows[..., :earlier] == last[..., :1]
    for place in range(1, length):
        same = same & (windows[..., place : place + earlier] == last[..., place : place + 1])
    return (last >= 0).all(-1) & ~same.any(-1)


def first_in(contexts: NDArray[np.int64], history: int) -> NDArray[np.bool_]:
    """Which contexts (u, h) of a text are not among the ``history`` contexts before them: (u,)."""
    new = np.ones(len(contexts), np.bool_)
    if len(contexts):
        _, numbers = np.unique(contexts, axis=0, return_inverse=True)
        numbers = numbers.ravel()
        order = np.argsort(numbers, kind="stable")
        repeated = numbers[order[1:]] == numbers[order[:-1]]
        new[order[1:]] = ~repeated | (np.diff(order) > history)
    return new
