"""What g-values look like in marked text: fitted numbers, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files as resources

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

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
    tensors = {"level": card.level.astype(np.float32), "slope": card.slope.astype(np.float32)}
    content: bytes = save_tensors(tensors, {FORMAT: json.dumps(dict(card.about))})
    return content


def read_card(content: bytes) -> LikelihoodCard:
    """What `save_card` wrote."""
    tensors = load_tensors(content)
    size = int.from_bytes(content[:8], "little")
    about = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][FORMAT])
    level, slope = (tensors[name].astype(np.float64) for name in ("level", "slope"))
    return LikelihoodCard(level, slope, about)


@lru_cache(maxsize=1)
def shipped_card() -> LikelihoodCard:
    """The card that comes with the package."""
    return read_card((resources("hammingmark.watermarks.synthid") / FILE).read_bytes())
