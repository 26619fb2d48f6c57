"""Deleting, inserting, repeating and shuffling sentences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hammingmark.attacks.base import ShareAttack, pick, round_at_random
from hammingmark.errors import InputError
from hammingmark.protocols import Splitter
from hammingmark.records import Sentences, Unit


@dataclass(frozen=True, kw_only=True)
class SentenceAttack(ShareAttack):
    """An attack on the sentences of a text; code, headings and the like are not moved.

    The outcome is normalised, like every text before detection.

    Attributes:
        splitter: finds the sentences.
    """

    splitter: Splitter
    share: float = 0.2

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        units = self.splitter.split(text).units
        places = [place for place, unit in enumerate(units) if unit.carries]
        return Sentences(tuple(self.change_units(units, places, rng=rng))).text.strip()

    @abstractmethod
    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> Sequence[Unit]:
        """The units of the attacked text.

        Args:
            units: those of the text.
            places: the indices of the sentences.
            rng: the random generator.
        """


@dataclass(frozen=True, kw_only=True)
class DeleteSentences(SentenceAttack):
    """Delete sentences."""

    name: ClassVar[str] = "delete-sentences"
    min_similarity: float = 0.7

    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        """The units of the attacked text."""
        deleted = {places[index] for index in pick(len(places), share=self.share, rng=rng)}
        remaining: list[Unit] = []
        for place, unit in enumerate(units):
            if place not in deleted:
                remaining.append(unit)
            elif remaining:
                # If a paragraph loses its last sentence, keep its break.
                remaining[-1] = replace(
                    remaining[-1], gap=max(remaining[-1].gap, unit.gap, key=_width)
                )
        return remaining


@dataclass(frozen=True, kw_only=True)
class InsertSentences(SentenceAttack):
    """Insert sentences from a pool, each after a sentence of the text.

    Attributes:
        pool: human sentences; each is used once before any is used again.
        share: the number of sentences to insert, as a share of the text's sentences.
    """

    name: ClassVar[str] = "insert-sentences"
    pool: tuple[str, ...]
    min_similarity: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.pool:
            raise InputError("The pool contains no sentence; give at least one.")

    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        """The units of the attacked text."""
        chosen = [places[index] for index in pick(len(places), share=self.share, rng=rng)]
        order = rng.permutation(len(self.pool))
        inserted = {
            place: self.pool[order[count % len(order)]] for count, place in enumerate(chosen)
        }
        result: list[Unit] = []
        for place, unit in enumerate(units):
            if place in inserted:
                result += [replace(unit, gap=" "), replace(unit, text=inserted[place])]
            else:
                result.append(unit)
        return result


@dataclass(frozen=True, kw_only=True)
class DuplicateSentences(SentenceAttack):
    """Repeat sentences, each immediately after itself."""

    name: ClassVar[str] = "duplicate-sentences"
    min_similarity: float = 0.9

    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        """The units of the attacked text."""
        repeated = {places[index] for index in pick(len(places), share=self.share, rng=rng)}
        result: list[Unit] = []
        for place, unit in enumerate(units):
            result += [replace(unit, gap=" "), unit] if place in repeated else [unit]
        return result


@dataclass(frozen=True, kw_only=True)
class ShuffleSentences(SentenceAttack):
    """Shuffle sentences; headings, lists and code stay in place.

    Attributes:
        share: of the sentences; every chosen one moves.
    """

    name: ClassVar[str] = "shuffle-sentences"
    share: float = 1.0
    min_similarity: float = 0.9

    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        """The units of the attacked text."""
        count = round_at_random(self.share * len(places), most=len(places), rng=rng)
        if count == 1 and len(places) > 1:  # one cannot move alone: move two, half of the time
            count = 2 * int(rng.integers(2))
        if count < 2:
            return list(units)
        chosen = rng.choice(places, count, replace=False)
        result = list(units)
        for place, other in zip(chosen, np.roll(chosen, 1), strict=True):
            result[place] = replace(units[place], text=units[other].text)
        return result


def _width(gap: str) -> tuple[int, int]:
    return gap.count("\n"), len(gap)
