"""Words to words that look random: the same on numpy and torch, on any device.

Integers of 64 bits wrap around alike everywhere, so that what is made of them here is the same at
generation on a GPU and at detection on a CPU, which random generators of libraries do not promise.
It is no cryptographic function: what it is keyed with can be hard to find, but nobody has shown it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Words = Any
"""int64, of numpy or torch, of any shape but a single number."""


def mix(words: Words) -> Words:
    """Every bit of a word moves every bit of what comes of it (Stafford's thirteenth variant)."""
    words = words + 0x1E3779B97F4A7C15
    words = (words ^ shifted(words, 30)) * -0x40A7B892E31B1A47
    words = (words ^ shifted(words, 27)) * -0x6B2FB644ECCEEE15
    return words ^ shifted(words, 31)


def shifted(words: Words, bits: int) -> Words:
    """Words shifted to the right, with zeros coming in from the left."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def happens(words: Words, probability: float) -> Words:
    """Whether something with this probability does, by mixed words: truth values."""
    return shifted(words, 11) < round(probability * 2**53)


def signed_words(stream: bytes) -> tuple[int, ...]:
    """Bytes as 64-bit words."""
    return tuple(int(word) for word in np.frombuffer(stream, dtype="<i8"))
