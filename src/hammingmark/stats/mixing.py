"""Mixing of 64-bit words, identical in numpy and torch on any device.

Integers of 64 bits wrap around in the same way everywhere, so the results are the same at
generation on a GPU and at detection on a CPU, which random generators of libraries do not promise.
This is no cryptographic function: it may be hard to recover a key from its output, but nobody has
shown that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Words = Any
"""An array of int64, of numpy or torch, with at least one dimension."""


def mix(words: Words) -> Words:
    """Words in which each bit depends on every bit of the input (Stafford's variant 13)."""
    words = words + 0x1E3779B97F4A7C15
    words = (words ^ shifted(words, 30)) * -0x40A7B892E31B1A47
    words = (words ^ shifted(words, 27)) * -0x6B2FB644ECCEEE15
    return words ^ shifted(words, 31)


def shifted(words: Words, bits: int) -> Words:
    """Words shifted to the right, filled with zeros from the left."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def happens(words: Words, probability: float) -> Words:
    """Bernoulli draws with this probability from mixed words: truth values."""
    return shifted(words, 11) < round(probability * 2**53)


def signed_words(stream: bytes) -> tuple[int, ...]:
    """Bytes as 64-bit words."""
    return tuple(int(word) for word in np.frombuffer(stream, dtype="<i8"))
