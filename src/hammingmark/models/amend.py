"""Weights that differ from a known file by a little: the file, and what is added to it.

A fine-tuned model is shipped as a few megabytes and made on the user's machine out of the base
weights. The outcome has a pinned hash like any other file, so its bytes must be the same on every
machine: what is added is a product of two matrices of whole numbers, which double precision
computes without rounding in whatever order a library sums, and everything after that is one
operation a number, which IEEE 754 rounds in one way.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from hammingmark.errors import ModelUnavailable

_LARGEST = 1 << 53


def amend(content: bytes, amendments: bytes) -> Iterator[bytes]:
    """A file of little-endian 32-bit numbers with changes at some of its places.

    Args:
        content: the base file.
        amendments: a safetensors file. For a place (an offset in bytes) it holds either
            ``PLACE.values``, which replace what is there, or ``PLACE.left`` (n, r) and
            ``PLACE.right`` (r, k) of whole numbers and ``PLACE.scale``, a power of two; left
            times right times scale is added to the n k numbers there.

    Raises:
        ModelUnavailable: the two do not fit.
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
                added = product(tensor, right, float(scale[0]))
                where = np.frombuffer(changed, "<f4", added.size, int(place))
                _put(changed, int(place), where + added.ravel())
    except (SafetensorError, KeyError, ValueError) as error:
        raise ModelUnavailable(f"its amendments do not fit ({error})", kind="damaged") from error
    yield bytes(changed)


def product(
    left: np.ndarray[tuple[int, int], np.dtype[np.int16]],
    right: np.ndarray[tuple[int, int], np.dtype[np.int16]],
    scale: float,
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """left (n, r) times right (r, k) times a power of two, rounded once."""
    if np.frexp(scale)[0] != 0.5:
        raise ValueError("the scale is no power of two")
    most = np.abs(left.astype(np.float64)).max() * np.abs(right.astype(np.float64)).max()
    if most * left.shape[1] >= _LARGEST:
        raise ValueError("the factors are too large to be multiplied without rounding")
    exact = left.astype(np.float64) @ right.astype(np.float64)
    return (exact * scale).astype(np.float32)


def _put(
    changed: bytearray, place: int, values: np.ndarray[tuple[int], np.dtype[np.float32]]
) -> None:
    content = np.ascontiguousarray(values, "<f4").tobytes()
    if place < 0 or place + len(content) > len(changed):
        raise ValueError("a place lies outside the file")
    changed[place : place + len(content)] = content
