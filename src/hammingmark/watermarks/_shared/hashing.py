"""Embeddings to sign bits (the paper's equation 2).

Arrays are laid out sentences first, then keys, then bits, so that bits that are compared
with each other are adjacent in memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# The linear algebra library splits a larger product among its threads; on a busy machine waking
# them takes a hundred times as long as the product. Measured in benchmarks/detection.py.
_SMALL_PRODUCT = 1 << 18

_PRODUCTS = 1 << 16  # multiplied at a time: few calls, and intermediate arrays fit in the cache


def project(
    embeddings: NDArray[np.float32], planes: NDArray[np.float32], *, bits: int
) -> NDArray[np.float32]:
    """R e for every sentence and key.

    Args:
        embeddings: (n, d).
        planes: the transposed planes of k keys side by side, (d, k m).
        bits: m.

    Returns:
        Projections, (n, k, m).
    """
    n, d = embeddings.shape
    width = planes.shape[1]
    result = np.empty((n, width), np.float32)
    step = max(bits, _SMALL_PRODUCT // max(1, n * d))
    if step >= width or n * d * 8 > _SMALL_PRODUCT:
        step = width
    for begin in range(0, width, step):
        part = slice(begin, begin + step)
        np.matmul(embeddings, planes[:, part], out=result[:, part])
    return result.reshape(n, -1, bits)


def project_in_order(
    embeddings: NDArray[np.float32], planes: NDArray[np.float32]
) -> NDArray[np.float32]:
    """R e for every sentence under one key, independent of the other rows.

    A matrix product rounds differently for other shapes, processors and numbers of threads, and
    generation projects a sentence among its candidates, detection among the sentences of its text.
    Here every projection is a sum of products in double precision, always in the same order
    (numpy sums a contiguous row pairwise, using only additions), and is rounded once.

    Args:
        embeddings: (n, d).
        planes: R, (m, d).

    Returns:
        Projections, (n, 1, m).
    """
    n, m = len(embeddings), len(planes)
    result = np.empty((n, 1, m), np.float32)
    rows = planes.astype(np.float64, order="C")
    step = max(1, _PRODUCTS // max(1, rows.size))
    for begin in range(0, n, step):
        part = slice(begin, begin + step)
        sentences = embeddings[part].astype(np.float64, order="C")
        result[part, 0] = (sentences[:, None] * rows).sum(axis=2)
    return result


def bits_to_numbers(bits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The integer with these bits, the most significant first: (..., m) to (...)."""
    numbers: NDArray[np.int64] = (bits * (1 << np.arange(bits.shape[-1])[::-1])).sum(axis=-1)
    return numbers


def hash_bits(projections: NDArray[np.float32]) -> NDArray[np.uint8]:
    """H(e) = 1[R e >= 0], packed eight bits per byte.

    Args:
        projections: (n, k, m).

    Returns:
        Codes, (n, k, ceil(m / 8)); unused bits of the last byte are zero.
    """
    n, k, m = projections.shape
    signs = projections >= 0
    if m % 8:
        return np.packbits(signs, axis=-1)
    return np.packbits(signs.reshape(-1)).reshape(n, k, m // 8)


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
