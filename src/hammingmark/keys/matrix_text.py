"""Small matrices as text, for keys that contain one.

``f16:8x384:BASE64`` is a matrix of 8 rows and 384 columns: 16-bit numbers, row by row,
little-endian. The prefix distinguishes it from any other text, above all from a secret in the wrong
place.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError

LARGEST = 1 << 18
"""The largest number of elements of a matrix, so that a key is a small file."""

_TEXT = re.compile(r"f16:([1-9]\d{0,5})x([1-9]\d{0,5}):([A-Za-z0-9+/]+={0,2})")


def array_to_text(rows: NDArray[np.floating]) -> str:
    """A matrix (k, d) as text; its elements are rounded to 16 bits.

    Raises:
        InputError: it is too large for a key.
    """
    if rows.size > LARGEST:
        raise InputError(
            f"A matrix in a key may have at most {LARGEST:,} elements, and this one has "
            f"{rows.shape[0]:,} times {rows.shape[1]:,}."
        )
    content = np.ascontiguousarray(rows, "<f2").tobytes()
    return f"f16:{rows.shape[0]}x{rows.shape[1]}:{base64.b64encode(content).decode('ascii')}"


def array_from_text(text: str) -> NDArray[np.float32]:
    """The matrix (k, d) that `array_to_text` wrote.

    Raises:
        InputError: the text is not a matrix; no message quotes it.
    """
    match = _TEXT.fullmatch(text)
    try:
        if not match or (k := int(match[1])) * (d := int(match[2])) > LARGEST:
            raise ValueError
        elements = np.frombuffer(base64.b64decode(match[3], validate=True), "<f2")
        rows: NDArray[np.float32] = elements.reshape(k, d).astype(np.float32)
    except (ValueError, binascii.Error):
        raise InputError("Not a matrix in the form f16:ROWSxCOLUMNS:BASE64.") from None
    if not np.isfinite(rows).all():
        raise InputError("The matrix contains a value that is not a number.")
    return rows


def is_array_text(value: object) -> bool:
    """Whether a value has the form of a matrix as text."""
    return isinstance(value, str) and _TEXT.fullmatch(value) is not None


def short_hash(text: str) -> str:
    """A short hash by which people distinguish matrices."""
    return hashlib.sha256(text.encode("ascii", "replace")).hexdigest()[:12]
