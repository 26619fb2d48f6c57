"""Null distributions: how a statistic behaves over keys that a text does not know.

A method says for each of its tests which of them holds. A threshold that was fitted on unmarked
text (``calibration.py``) is the third way, for methods or users that must do without either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count

import numpy as np
from numpy.typing import NDArray

from hammingmark.core.sums import Increments, NormalIncrements
from hammingmark.keys import Secret

SMALLEST = 1e-300
"""No p-value below this is told."""

_BLOCK = 1000
_CHUNK = 256  # units at a time, so that memory does not grow with the text
_VOTE = 16  # steps of the lattice in one vote


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

    def blocks(self) -> Iterator[Iterator[NDArray[np.float64]]]:
        """The increments under reference keys."""
        return self.draws()


class IndependentNull(ABC):
    """Independent increments on a lattice: p-values to any depth, and no key is drawn for them.

    A long text may be tested section by section. Its p-value is then the smallest of theirs times
    their number, which is valid whatever the sections have in common.

    Args:
        increments: what a unit adds.
        counted: which units count, (u,); the increments of the others are 0.
        secret: of the key, for draws.
        centre: what to take off each that counts before windows are compared, on the lattice.
        section: units of a section at most; by default all.
    """

    def __init__(
        self,
        increments: Increments,
        counted: NDArray[np.bool_],
        secret: Secret,
        *,
        centre: float = 0.0,
        section: int | None = None,
    ) -> None:
        self._secret = secret
        self._increments = increments
        self.counted = counted
        self._centre = centre
        self._section = section or len(counted)

    @property
    @abstractmethod
    def words(self) -> str:
        """How it is known."""

    @cached_property
    def centre(self) -> NDArray[np.float64]:
        """What to take off each increment before windows are compared, (u,)."""
        return np.where(self.counted, self._centre, 0.0)

    @cached_property
    def best(self) -> NDArray[np.float64]:
        """The most that any key could give each unit, (u,)."""
        return np.where(self.counted, self._increments.best, 0.0)

    def p_value(self, own: NDArray[np.float64]) -> float:
        """The probability of a sum as large as that of these increments, (u,)."""
        tails = [
            self._increments.survival(int(self.counted[part].sum()), float(own[part].sum()))
            for part in self._sections
        ]
        return max(SMALLEST, min(1.0, len(tails) * min(tails)))

    def window_p_value(self, own: NDArray[np.float64], window: slice) -> float:
        """The probability that any window has a sum as large as this one."""
        inside = np.zeros(len(own), np.bool_)
        inside[window] = True
        centred = (own - self.centre) * inside
        tails = [
            self._increments.scan_survival(
                int(self.counted[part].sum()), float(centred[part].sum()), centre=self._centre
            )
            for part in self._sections
        ]
        return max(SMALLEST, min(1.0, len(tails) * min(tails)))

    def power(self, level: float) -> float | None:
        """How often a marked text would reach the level, by the first section if there are more."""
        if not self._increments.is_ratio:
            return None
        sections = self._sections
        return self._increments.power(int(self.counted[sections[0]].sum()), level / len(sections))

    def blocks(self) -> Iterator[Iterator[NDArray[np.float64]]]:
        """Independent draws, whose numbers come from the secret."""
        return (self._draw(block) for block in count())

    @abstractmethod
    def _draws(self, count: int, *, index: int) -> NDArray[np.float64]:
        """Some increments, the same for the same index: (count,)."""

    @property
    def _sections(self) -> list[slice]:
        units = len(self.counted)
        return [
            slice(first, min(first + self._section, units))
            for first in range(0, units, self._section)
        ]

    def _draw(self, block: int) -> Iterator[NDArray[np.float64]]:
        for part, first in enumerate(range(0, len(self.counted), _CHUNK)):
            counted = self.counted[first : first + _CHUNK, None]
            drawn = self._draws(len(counted) * _BLOCK, index=(block << 32) | part)
            yield drawn.reshape(-1, _BLOCK) * counted


class BinomialNull(IndependentNull):
    """Units that are valid independently of each other with one probability, as green tokens are.

    The increments are 1 for a valid unit and 0 for any other. A unit that comes again is valid
    again, and so counts once.

    Args:
        counted: which units count, (u,); the increments of the others are 0.
        probability: of a valid unit.
        secret: of the key.
    """

    def __init__(self, counted: NDArray[np.bool_], probability: float, secret: Secret) -> None:
        self._probability = probability
        votes = _votes(probability)
        # The middle between the mean of unmarked text and 1, on the lattice.
        centre = round((1.0 + probability) / 2.0 * _VOTE) / _VOTE
        super().__init__(votes, counted, secret, centre=centre)

    @property
    def words(self) -> str:
        """How it is known."""
        return "exact binomial"

    def _draws(self, count: int, *, index: int) -> NDArray[np.float64]:
        uniform = self._secret.uniforms("null", count, index=index)
        return (uniform < self._probability).astype(np.float64)


class NormalNull(IndependentNull):
    """Functions of independent standard normal deviates."""

    _increments: NormalIncrements

    @property
    def words(self) -> str:
        """How it is known."""
        return "exact normal"

    def _draws(self, count: int, *, index: int) -> NDArray[np.float64]:
        deviates = self._secret.normals("null", count, index=index)
        return self._increments.of(deviates.astype(np.float64))


@lru_cache(maxsize=64)
def _votes(probability: float) -> Increments:
    mass = np.zeros(_VOTE + 1)
    mass[0], mass[-1] = 1.0 - probability, probability
    return Increments(0, mass, step=1.0 / _VOTE, is_ratio=False)
