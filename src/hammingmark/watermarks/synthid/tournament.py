"""The tournament of SynthID-Text, on probabilities.

At each depth every token meets others drawn from the same distribution, and one of those with the
larger g-value is kept. With k to a match and G the total probability of tokens with g = 1,

    p <- p (1 - (1 - G)^k) / G   where g = 1,        p <- p (1 - G)^(k - 1)   where g = 0

which for k = 2 is p (1 + g - G), and then the mean over fair bits g is p itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def is_new(windows: Array, length: int) -> Array:
    """Whether the last ``length`` tokens are complete and were not seen in a row before.

    Args:
        windows: the tokens so far, oldest first, -1 where a text has not begun: (B, W). The
            context is compared with the W - length before it.
        length: of a context, h.

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
    """Which contexts (u, h) of a text are not among the ``history`` before them: (u,)."""
    new = np.ones(len(contexts), np.bool_)
    if len(contexts):
        _, kinds = np.unique(contexts, axis=0, return_inverse=True)
        kinds = kinds.ravel()
        order = np.argsort(kinds, kind="stable")
        again = kinds[order[1:]] == kinds[order[:-1]]
        new[order[1:]] = ~again | (np.diff(order) > history)
    return new
