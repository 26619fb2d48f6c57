"""What g-values look like in marked text: fitted numbers, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files as resources

import numpy as np
from numpy.typing import NDArray

from hammingmark.artifacts.card import read_card, write_card

FORMAT = "hammingmark-tournament"
FILE = "likelihood.safetensors"
"""Beside this module; ``python -m research.training.tournament`` makes it."""


@dataclass(frozen=True)
class LikelihoodCard:
    """The parameters of `watermarks.synthid.g_statistics.LikelihoodRatio`.

    Attributes:
        level: (depth,).
        slope: (depth,).
        about: what they were fitted on, by name.
    """

    level: NDArray[np.float64]
    slope: NDArray[np.float64]
    about: Mapping[str, str | int | float] = field(default_factory=dict)

    def at(self, depth: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Level and slope for a tournament of this depth, (depth,) each.

        Of a deeper one than was fitted, the last depths are taken to be like the last known one.
        """
        places = np.minimum(np.arange(depth), len(self.level) - 1)
        return self.level[places], self.slope[places]


def save_card(card: LikelihoodCard) -> bytes:
    """A card as a safetensors file."""
    arrays = {"level": card.level, "slope": card.slope}
    return write_card(arrays, card.about, kind=FORMAT, dtype=np.float32)


def load_card(content: bytes) -> LikelihoodCard:
    """What `save_card` wrote."""
    arrays, about = read_card(content, kind=FORMAT)
    level, slope = (arrays[name].astype(np.float64) for name in ("level", "slope"))
    return LikelihoodCard(level, slope, about)


@lru_cache(maxsize=1)
def shipped_card() -> LikelihoodCard:
    """The card that comes with the package."""
    return load_card((resources("hammingmark.watermarks.synthid") / FILE).read_bytes())
