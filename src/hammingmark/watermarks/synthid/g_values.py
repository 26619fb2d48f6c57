"""The g-values of SynthID-Text: secret bits of every run of n tokens, one for each depth.

A hash takes the n tokens one after the other, then the key of a depth; one bit of the result is the
g-value. There are three hashings:

- ``mixed``, ours: h starts at a secret word; every token, and then the key of a depth, is added and
  the sum mixed (`stats.mixing`); the g-value is the highest bit;
- ``iterated``, of version 0.2.1 of the published code: h starts at a hash of the keys, and a linear
  congruential generator takes tokens and key, h <- (h + x) · 6364136223846793005 + 1 modulo 2^64.
  Then the generator runs 12 more times with x = 1, each followed by a shift by 5 bits; bit 30 of h
  is the g-value;
- ``table``, of the first published code: as ``iterated``, but h starts at 1, and its last 16 bits
  are the index into a public table of 65,536 bits.

The generator is linear in the tokens with public coefficients, so that the key only shifts the
hashes of all runs together. The rounds after it do not hide this: the g-values of suitably chosen
runs are correlated under every key, although each by itself is a fair bit.

Everything is 64-bit integer arithmetic that wraps around, identical in numpy and in torch, on every
device. ``Integers`` are arrays of either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hammingmark.stats.mixing import mix, shifted

Hashing = Literal["mixed", "iterated", "table"]
Integers = Any
"""int64, of numpy or of torch."""

TABLE_SIZE = 1 << 16
_MULTIPLIER = 6364136223846793005
_ROUNDS = 12
_SHIFT = 64 // _ROUNDS
_BIT = 30


@dataclass(frozen=True)
class GValueHash:
    """From runs of tokens to their g-values, under one key or many.

    Attributes:
        hashing: the hashing.
        start: the initial value of the hash; a number, or one for each of K keys, (K, 1).
        keys: the keys of the depths, (depth,) or (K, 1, depth).
        table: the bits, (65536,), for the hashing ``table``.
    """

    hashing: Hashing
    start: Integers = field(repr=False)
    keys: Integers = field(repr=False)
    table: Integers | None = field(repr=False, default=None)

    @classmethod
    def of(cls, keys: NDArray[np.int64], hashing: Hashing) -> GValueHash:
        """The hash of one key, from the keys of its depths (depth,)."""
        if hashing == "table":
            return cls(hashing, 1, keys, sampling_table())
        return cls(hashing, start_of(keys), keys)

    @classmethod
    def of_many(cls, keys: NDArray[np.int64], hashing: Hashing) -> GValueHash:
        """The hash of K keys at once, (K, depth): hashes are (K, u), g-values (K, u, depth)."""
        separate = keys[:, None, :]
        if hashing == "table":
            return cls(hashing, np.ones((len(keys), 1), np.int64), separate, sampling_table())
        starts = np.array([start_of(row) for row in keys], np.int64)
        return cls(hashing, starts[:, None], separate)

    def moved(self, move: Callable[[NDArray[np.int64]], Any]) -> GValueHash:
        """The same hash with moved arrays, such as tensors on a device."""
        table = None if self.table is None else move(self.table)
        return GValueHash(self.hashing, self.start, move(self.keys), table)

    def hashes(self, tokens: Integers) -> Integers:
        """The hashes of runs of tokens: (..., n) to (...)."""
        hashes = self.start
        for place in range(tokens.shape[-1]):
            hashes = self.take_in(hashes, tokens[..., place])
        return hashes

    def take_in(self, hashes: Integers, tokens: Integers) -> Integers:
        """The hashes of runs with one more token; shapes are broadcast."""
        return mix(hashes + tokens) if self.hashing == "mixed" else accumulate(hashes, tokens)

    def g_values(self, hashes: Integers) -> Integers:
        """The bits of hashed runs of tokens at every depth: (...) to (..., depth), 0 or 1."""
        mixed = self.take_in(hashes[..., None], self.keys)
        if self.hashing == "mixed":
            return shifted(mixed, 63)
        if self.table is not None:
            mixed &= TABLE_SIZE - 1
            return self.table[mixed]
        for _ in range(_ROUNDS):
            mixed *= _MULTIPLIER  # (h + 1) · a + 1, in two steps
            mixed += _MULTIPLIER + 1
            mixed >>= _SHIFT
        mixed >>= _BIT
        mixed &= 1
        return mixed

    def tells_apart(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The part of hashes on which g-values depend; the key does not decide which are equal."""
        return hashes if self.table is None else hashes & (TABLE_SIZE - 1)


def accumulate(hashes: Integers, data: Integers) -> Integers:
    """The published code's hashes with one more number; shapes are broadcast."""
    mixed = hashes + data
    mixed *= _MULTIPLIER
    mixed += 1
    return mixed


def start_of(keys: NDArray[np.int64]) -> int:
    """The initial hash, except for a table: a hash of the keys (depth,), below 2^63 - 1."""
    digest = hashlib.sha256(keys.astype("<i8").tobytes()).digest()
    return int.from_bytes(digest, "big") % (2**63 - 1)


@lru_cache(maxsize=1)
def sampling_table() -> NDArray[np.int64]:
    """The public table of bits that torch draws on a CPU with seed 0, (65536,).

    torch uses the generator of numpy's ``RandomState``, and takes its words modulo 2.
    """
    words = np.random.RandomState(0).randint(0, 1 << 32, size=TABLE_SIZE, dtype=np.uint32)
    table = (words % 2).astype(np.int64)
    table.flags.writeable = False
    return table


def share_of_ones(hashing: Hashing) -> float:
    """The share of ones among g-values, over keys."""
    return float(sampling_table().mean()) if hashing == "table" else 0.5
