"""The g-values of SynthID-Text: secret bits of every run of n tokens, one for each depth.

A hash takes in the n tokens one after the other, then the key of a depth; a bit of what comes out
is the g-value. There are three hashings:

- ``mixed``, ours: h starts at a secret word, every token is added and the sum mixed (`mixing`),
  and so is the key of a depth; the g-value is the highest bit;
- ``iterated``, of version 0.2.1 of the published code: h starts at a hash of the keys, and a linear
  congruential generator takes in tokens and key, h <- (h + x) · 6364136223846793005 + 1 modulo
  2^64. Then it is taken through the generator 12 more times with x = 1 and shifted by 5 bits each
  time; its bit 30 is the g-value;
- ``table``, of the first published code: likewise, but h starts at 1, and its last 16 bits are a
  place in a public table of 65,536 bits.

The generator is linear in the tokens, with numbers that everybody knows: the key only shifts the
hashes of all runs together. What follows does not hide that, so that g-values of runs chosen for it
hang together under every key, although each by itself is a fair bit.

Everything is 64-bit integer arithmetic that wraps around, alike in numpy and in torch, on every
device. Arrays of either are welcome wherever a type says ``Integers``.
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
        hashing: which.
        start: what the hash of tokens starts at; a number, or one for each of K keys, (K, 1).
        keys: of the depths, (depth,) or (K, 1, depth).
        table: of bits, (65536,), for the hashing that has one.
    """

    hashing: Hashing
    start: Integers = field(repr=False)
    keys: Integers = field(repr=False)
    table: Integers | None = field(repr=False, default=None)

    @classmethod
    def of(cls, keys: NDArray[np.int64], hashing: Hashing) -> GValueHash:
        """That of one key: (depth,)."""
        if hashing == "table":
            return cls(hashing, 1, keys, sampling_table())
        return cls(hashing, start_of(keys), keys)

    @classmethod
    def of_many(cls, keys: NDArray[np.int64], hashing: Hashing) -> GValueHash:
        """Those of K keys at once, (K, depth); hashes are then (K, u), g-values (K, u, depth)."""
        apart = keys[:, None, :]
        if hashing == "table":
            return cls(hashing, np.ones((len(keys), 1), np.int64), apart, sampling_table())
        starts = np.array([start_of(row) for row in keys], np.int64)
        return cls(hashing, starts[:, None], apart)

    def moved(self, move: Callable[[NDArray[np.int64]], Any]) -> GValueHash:
        """The same with other arrays, such as tensors on a device."""
        table = None if self.table is None else move(self.table)
        return GValueHash(self.hashing, self.start, move(self.keys), table)

    def hashes(self, tokens: Integers) -> Integers:
        """The hashes of runs of tokens: (..., n) to (...)."""
        found = self.start
        for place in range(tokens.shape[-1]):
            found = self.take_in(found, tokens[..., place])
        return found

    def take_in(self, hashes: Integers, tokens: Integers) -> Integers:
        """Hashes of runs that are one token longer; shapes are broadcast."""
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
        """As much of hashes as the g-values depend on; the differences do not depend on the key."""
        return hashes if self.table is None else hashes & (TABLE_SIZE - 1)


def accumulate(hashes: Integers, data: Integers) -> Integers:
    """Take one number more into each hash of the published code; shapes are broadcast."""
    mixed = hashes + data
    mixed *= _MULTIPLIER
    mixed += 1
    return mixed


def start_of(keys: NDArray[np.int64]) -> int:
    """What hashes start at, but for a table: a hash of the keys (depth,), below 2^63 - 1."""
    digest = hashlib.sha256(keys.astype("<i8").tobytes()).digest()
    return int.from_bytes(digest, "big") % (2**63 - 1)


@lru_cache(maxsize=1)
def sampling_table() -> NDArray[np.int64]:
    """The public table of bits: what torch draws on a CPU under seed 0, (65536,).

    Its generator is that of numpy's ``RandomState``, whose words it takes modulo 2.
    """
    words = np.random.RandomState(0).randint(0, 1 << 32, size=TABLE_SIZE, dtype=np.uint32)
    table = (words % 2).astype(np.int64)
    table.flags.writeable = False
    return table


def share_of_ones(hashing: Hashing) -> float:
    """How many of all g-values are 1, over keys."""
    return float(sampling_table().mean()) if hashing == "table" else 0.5
