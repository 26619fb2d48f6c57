"""A small network of linear layers with residual blocks, applied to rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hammingmark.protocols import FloatArray

Layer = tuple[FloatArray, FloatArray]
"""A matrix (out, in) and what is added, (out,)."""


def apply_network(rows: FloatArray, layers: Sequence[Layer]) -> NDArray[np.float64]:
    """Rows (n, d) to (n, o): x = relu(A x), x = x + relu(B x) for each inner layer, C x."""
    first, *blocks, last = [(w.astype(np.float64), b.astype(np.float64)) for w, b in layers]
    x = np.maximum(rows.astype(np.float64) @ first[0].T + first[1], 0.0)
    for weights, bias in blocks:
        x = x + np.maximum(x @ weights.T + bias, 0.0)
    values: NDArray[np.float64] = x @ last[0].T + last[1]
    return values


def balanced_signs(values: NDArray[np.floating]) -> FloatArray:
    """1 where a number is above the mean of its row, otherwise -1: (n, o) to the same."""
    means = values.mean(axis=1, keepdims=True) if values.size else 0.0
    return np.where(values > means, 1.0, -1.0).astype(np.float32)
