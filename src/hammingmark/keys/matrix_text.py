"""Small matrices as text, for a key that must hold one.

``f16:8x384:BASE64`` is a matrix of 8 rows and 384 columns: its numbers row by row, of 16 bits each,
little-endian. What it begins with tells it from any other text, a secret in the wrong place above
all.
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
"""Numbers of a matrix at most: a key is a small file."""

_TEXT = re.compile(r"f16:([1-9]\d{0,5})x([1-9]\d{0,5}):([A-Za-z0-9+/]+={0,2})")


def array_to_text(rows: NDArray[np.floating]) -> str:
    """A matrix (k, d) as text; its numbers are rounded to 16 bits.

    Raises:
        InputError: it is too large for a key.
    """
    if rows.size > LARGEST:
        raise InputError(
            f"A key holds {LARGEST:,} numbers at most, and these are {rows.shape[0]:,} times "
            f"{rows.shape[1]:,}."
        )
    content = np.ascontiguousarray(rows, "<f2").tobytes()
    return f"f16:{rows.shape[0]}x{rows.shape[1]}:{base64.b64encode(content).decode('ascii')}"


def array_from_text(text: str) -> NDArray[np.float32]:
    """The matrix (k, d) that `array_to_text` wrote.

    Raises:
        InputError: this is none; no message quotes it.
    """
    found = _TEXT.fullmatch(text)
    try:
        if not found or (k := int(found[1])) * (d := int(found[2])) > LARGEST:
            raise ValueError
        numbers = np.frombuffer(base64.b64decode(found[3], validate=True), "<f2")
        rows: NDArray[np.float32] = numbers.reshape(k, d).astype(np.float32)
    except (ValueError, binascii.Error):
        raise InputError(
            "This is no matrix as text, which looks like f16:ROWSxCOLUMNS:BASE64."
        ) from None
    if not np.isfinite(rows).all():
        raise InputError("A matrix as text holds something that is no number.")
    return rows


def is_array_text(value: object) -> bool:
    """Whether this is a matrix as text, by the look of it."""
    return isinstance(value, str) and _TEXT.fullmatch(value) is not None


def short_hash(text: str) -> str:
    """A few digits by which people tell one matrix from another."""
    return hashlib.sha256(text.encode("ascii", "replace")).hexdigest()[:12]
