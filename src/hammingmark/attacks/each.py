"""What attacks share that change one text at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError


class EachText(ABC):
    """An attack on one text after the other.

    Each text gets dice of its own, drawn from ``rng`` in order: what becomes of a text depends on
    ``rng`` and on its place in the batch, not on the other texts.
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
class EachShare(EachText):
    """An attack on a share of what each text holds.

    Attributes:
        share: of the words, sentences or letters.
        min_similarity: least similarity at which the outcome counts as the same text.
    """

    share: float = 0.1
    min_similarity: float = 0.8

    def __post_init__(self) -> None:
        require_share(self.share)


def require_share(value: float, *, name: str = "share") -> None:
    """Refuse a share that is none.

    Raises:
        InputError: the value is not between 0 and 1.
    """
    if not 0.0 <= value <= 1.0:
        raise InputError(f"{name} must lie between 0 and 1, not {value:g}.")


def how_many(expected: float, *, most: int, rng: np.random.Generator) -> int:
    """A whole number whose mean is ``expected``, and at most ``most``."""
    return min(int(expected + rng.random()), most)


def pick(
    count: int, *, share: float, rng: np.random.Generator, among: int | None = None
) -> NDArray[np.int64]:
    """Places out of ``among``, sorted: on average ``share`` of ``count``, if there are so many.

    Args:
        count: what the share refers to.
        share: of ``count``, to be chosen.
        rng: the dice.
        among: how many places there are to choose from; ``count`` if it is not given.
    """
    places = count if among is None else among
    chosen = rng.choice(places, how_many(share * count, most=places, rng=rng), replace=False)
    return np.sort(chosen.astype(np.int64))
