"""An encoder without a model."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.protocols import FloatArray


@dataclass(frozen=True)
class FakeEncoder:
    """Embeds a sentence as the sum of its words, each of which has a direction of its own.

    Sentences that share words are similar, the more so the more they share. The sums are of whole
    numbers, so that an embedding is the same on every machine and in any company.

    Attributes:
        dimension: d.
        name: what it is called.
        seed: decides the directions.
        asked: a record of all sentences that were embedded.
    """

    dimension: int = 64
    name: str = "fake"
    seed: int = 0
    asked: list[str] = field(default_factory=list, compare=False, repr=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the dimension and the seed."""
        return hashlib.sha256(f"fake {self.dimension} {self.seed}".encode()).hexdigest()

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d), float32, rows of length one.

        Raises:
            InputError: for a bare string.
        """
        if isinstance(sentences, str):
            raise InputError("encode takes a list of sentences, not one string. Write [sentence].")
        self.asked.extend(sentences)
        rows = np.empty((len(sentences), self.dimension), np.float32)
        for row, sentence in zip(rows, sentences, strict=True):
            words = set(re.findall(r"\w+", sentence.lower())) or {sentence}
            total = np.zeros(self.dimension, np.int64)
            for word in words:
                total += self._direction(word)
            # Squares as Python's integers: their sum does not depend on its order.
            row[:] = total / math.sqrt(sum(value * value for value in total.tolist()))
        return rows

    def _direction(self, word: str) -> NDArray[np.int32]:
        content = f"{self.seed} {word}".encode("utf-8", "surrogatepass")
        return np.frombuffer(hashlib.shake_256(content).digest(4 * self.dimension), "<i4")
