"""Null distributions: how a statistic behaves over keys that a text does not know.

A method says for each of its tests which of them holds. A threshold that was fitted on unmarked
text (``calibration.py``) is the third way, for methods or users that must do without either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from hammingmark.core import theory
from hammingmark.keys import Secret

_BLOCK = 1000
_CHUNK = 256  # units at a time, so that memory does not grow with the text
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class KeyRandomization:
    """The same statistic under reference keys, drawn like the secret one and counted.

    Attributes:
        draws: begins block after block of increments, each chunk by chunk along the text: (c, k).
    """

    draws: Callable[[], Iterator[Iterator[NDArray[np.float64]]]]

    @property
    def words(self) -> str:
        """How it is known."""
        return "exact over reference keys"

    def survival(self, score: float) -> float | None:
        """There is no closed form."""
        return None

    def blocks(self) -> Iterator[Iterator[NDArray[np.float64]]]:
        """The increments under reference keys."""
        return self.draws()


@dataclass(frozen=True, slots=True)
class BinomialNull:
    """Units that are valid independently of each other with one probability, as green tokens are.

    The increments are 1 for a valid unit and 0 for any other, so the whole has a closed form; for
    the best window draws are counted, whose numbers come from the secret. A unit that comes again
    is valid again, and so counts once.

    Attributes:
        counted: which units count, (u,); the increments of the others are 0.
        probability: of a valid unit.
        secret: of the key.
    """

    counted: NDArray[np.bool_]
    probability: float
    secret: Secret

    @property
    def words(self) -> str:
        """How it is known."""
        return "exact binomial"

    def survival(self, score: float) -> float:
        """P(S >= score)."""
        least = math.ceil(score - _TIE * max(1.0, abs(score)))
        return theory.binomial_survival(int(self.counted.sum()), least, self.probability)

    def blocks(self) -> Iterator[Iterator[NDArray[np.float64]]]:
        """Independent draws."""
        return (self._draw(block) for block in count())

    def _draw(self, block: int) -> Iterator[NDArray[np.float64]]:
        for part, first in enumerate(range(0, len(self.counted), _CHUNK)):
            counted = self.counted[first : first + _CHUNK, None]
            index = (block << 32) | part
            uniform = self.secret.uniforms("null", len(counted) * _BLOCK, index=index)
            drawn = uniform.reshape(-1, _BLOCK) < self.probability
            yield (drawn & counted).astype(np.float64)
