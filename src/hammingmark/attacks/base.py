"""Base classes of attacks on single texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError


class TextAttack(ABC):
    """An attack on one text after the other.

    Each text gets a random generator of its own, seeded from ``rng`` in order: the outcome of a
    text depends on ``rng`` and on its place in the batch, not on the other texts.
    """

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text, with all randomness drawn from ``rng``."""
        seeds = rng.integers(np.iinfo(np.int64).max, size=len(texts))
        return [
            self.change(text, rng=np.random.default_rng(seed))
            for text, seed in zip(texts, seeds, strict=True)
        ]

    @abstractmethod
    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""


@dataclass(frozen=True, kw_only=True)
class ShareAttack(TextAttack):
    """An attack on a share of the elements of each text.

    Attributes:
        share: of the words, sentences or letters.
        min_similarity: least similarity at which the outcome counts as the same text.
    """

    share: float = 0.1
    min_similarity: float = 0.8

    def __post_init__(self) -> None:
        require_share(self.share)


def require_share(value: float, *, name: str = "share") -> None:
    """Refuse an invalid share.

    Raises:
        InputError: the value is not between 0 and 1.
    """
    if not 0.0 <= value <= 1.0:
        raise InputError(f"{name} must be between 0 and 1, not {value:g}.")


def round_at_random(expected: float, *, most: int, rng: np.random.Generator) -> int:
    """A whole number of mean ``expected``, but at most ``most``."""
    return min(int(expected + rng.random()), most)


def pick(
    count: int, *, share: float, rng: np.random.Generator, among: int | None = None
) -> NDArray[np.int64]:
    """Sorted positions below ``among``: ``share`` of ``count`` on average, if there are enough.

    Args:
        count: the number that the share refers to.
        share: of ``count``, to be chosen.
        rng: the random generator.
        among: the number of positions to choose from; ``count`` by default.
    """
    total = count if among is None else among
    size = round_at_random(share * count, most=total, rng=rng)
    return np.sort(rng.choice(total, size, replace=False).astype(np.int64))
