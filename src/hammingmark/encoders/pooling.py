"""Token vectors to one vector of length one. Pure functions on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import EncoderError
from hammingmark.protocols import FloatArray


def mean_pool(hidden: FloatArray, mask: NDArray[np.integer[Any]]) -> FloatArray:
    """Average the token vectors that the mask keeps.

    Args:
        hidden: (n, t, d).
        mask: (n, t), 1 for a token and 0 for padding.

    Returns:
        (n, d); a row without tokens is zero.
    """
    weights = mask.astype(np.float32)[:, :, None]
    total = (hidden * weights).sum(axis=1)
    mean: FloatArray = total / np.maximum(weights.sum(axis=1), np.float32(1))
    return mean


def cls_pool(hidden: FloatArray) -> FloatArray:
    """The first token's vector: (n, t, d) to (n, d)."""
    return hidden[:, 0, :]


def unit_rows(vectors: FloatArray) -> FloatArray:
    """Scale each row of (n, d) to length one, as contiguous float32.

    A row of zeros has no direction; it becomes the first axis, the same every time.

    Raises:
        EncoderError: if a value is not finite.
    """
    wide = np.array(vectors, dtype=np.float64)
    if not np.isfinite(wide).all():
        raise EncoderError(
            "The encoder gave values that are not finite. Its weights are damaged, or in a "
            "number format that this machine handles badly; try the float32 weights."
        )
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    blank = norms[:, 0] == 0
    wide[blank, :1] = 1.0
    norms[blank] = 1.0
    return np.ascontiguousarray(wide / norms, dtype=np.float32)
