"""Weights as changes to a base file, so that a fine-tuned model takes little space.

A fine-tuned model is shipped as a few megabytes of changes and built on the user's machine from the
base weights. The result has a pinned hash like any other file, so its bytes must be the same on
every machine. Therefore the changes are products of two matrices of integers, which double
precision computes without rounding in any order of summation. After that, each number undergoes
single operations, whose rounding IEEE 754 determines.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from hammingmark.errors import ModelUnavailable

_LARGEST_EXACT = 1 << 53


def amend(content: bytes, amendments: bytes) -> Iterator[bytes]:
    """Apply changes to a file of little-endian 32-bit floating-point numbers.

    Args:
        content: the base file.
        amendments: a safetensors file. For a place (an offset in bytes) it has either
            ``PLACE.values``, which replace the numbers there, or ``PLACE.left`` (n, r) and
            ``PLACE.right`` (r, k) of integers and ``PLACE.scale``, a power of two; left times
            right times scale is added to the n k numbers there.

    Raises:
        ModelUnavailable: the changes do not fit the file.
    """
    changed = bytearray(content)
    try:
        tensors = load(amendments)
        for name, tensor in tensors.items():
            place, _, kind = name.partition(".")
            if kind == "values":
                _put(changed, int(place), tensor.astype("<f4").ravel())
            elif kind == "left":
                right, scale = tensors[f"{place}.right"], tensors[f"{place}.scale"]
                difference = product(tensor, right, float(scale[0]))
                values = np.frombuffer(changed, "<f4", difference.size, int(place))
                _put(changed, int(place), values + difference.ravel())
    except (SafetensorError, KeyError, ValueError) as error:
        raise ModelUnavailable(f"its changes do not fit ({error})", kind="damaged") from error
    yield bytes(changed)


def product(
    left: np.ndarray[tuple[int, int], np.dtype[np.int16]],
    right: np.ndarray[tuple[int, int], np.dtype[np.int16]],
    scale: float,
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """left (n, r) times right (r, k) times a power of two, rounded once."""
    if np.frexp(scale)[0] != 0.5:
        raise ValueError("the scale is not a power of two")
    bound = np.abs(left.astype(np.float64)).max() * np.abs(right.astype(np.float64)).max()
    if bound * left.shape[1] >= _LARGEST_EXACT:
        raise ValueError("the factors are too large for a product without rounding")
    exact = left.astype(np.float64) @ right.astype(np.float64)
    return (exact * scale).astype(np.float32)


def _put(
    changed: bytearray, place: int, values: np.ndarray[tuple[int], np.dtype[np.float32]]
) -> None:
    content = np.ascontiguousarray(values, "<f4").tobytes()
    if place < 0 or place + len(content) > len(changed):
        raise ValueError("a place is outside the file")
    changed[place : place + len(content)] = content
