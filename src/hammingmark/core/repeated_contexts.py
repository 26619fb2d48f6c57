"""Contexts that come again: a mark that depends on the last h tokens would repeat itself there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
"""Of numpy or of torch."""


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
