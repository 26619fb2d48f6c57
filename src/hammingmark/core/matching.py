"""Codes to matching bits (the paper's equation 3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_POPCOUNT: NDArray[np.uint8] = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(
    axis=1, dtype=np.uint8
)


def match_counts(
    codes: NDArray[np.uint8], others: NDArray[np.uint8], *, bits: int
) -> NDArray[np.uint8]:
    """Match(h, h') = m - d_H(h, h').

    Args:
        codes: packed codes, (..., ceil(m / 8)).
        others: codes to compare with, broadcastable to the same shape.
        bits: m.

    Returns:
        Matching bits, (...).
    """
    different = _POPCOUNT[codes ^ others]
    distance: NDArray[np.uint8] = (
        different[..., 0] if different.shape[-1] == 1 else different.sum(axis=-1, dtype=np.uint8)
    )
    matches: NDArray[np.uint8] = np.uint8(bits) - distance
    return matches
