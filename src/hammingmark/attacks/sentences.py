"""Whole sentences taken out, put in, said twice, or moved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hammingmark.attacks.each import EachShare, how_many, pick
from hammingmark.errors import InputError
from hammingmark.protocols import Splitter
from hammingmark.records import Sentences, Unit


@dataclass(frozen=True, kw_only=True)
class SentenceAttack(EachShare):
    """An attack on the sentences of a text; code, headings and the like stay where they are.

    The outcome is normalised, as every text is before it is judged.

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
            places: which of them are sentences.
            rng: the dice.
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
        gone = {places[index] for index in pick(len(places), share=self.share, rng=rng)}
        left: list[Unit] = []
        for place, unit in enumerate(units):
            if place not in gone:
                left.append(unit)
            elif left:
                # A paragraph that loses its last sentence still ends.
                left[-1] = replace(left[-1], gap=max(left[-1].gap, unit.gap, key=_width))
        return left


@dataclass(frozen=True, kw_only=True)
class InsertSentences(SentenceAttack):
    """Insert sentences from a pool, each after a sentence of the text.

    Attributes:
        pool: sentences that people wrote; each is used once before any is used again.
        share: sentences to put in, as a share of those that are there.
    """

    name: ClassVar[str] = "insert-sentences"
    pool: tuple[str, ...]
    min_similarity: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.pool:
            raise InputError("The pool holds no sentence; give at least one.")

    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        """The units of the attacked text."""
        behind = [places[index] for index in pick(len(places), share=self.share, rng=rng)]
        order = rng.permutation(len(self.pool))
        foreign = {
            place: self.pool[order[count % len(order)]] for count, place in enumerate(behind)
        }
        found: list[Unit] = []
        for place, unit in enumerate(units):
            if place in foreign:
                found += [replace(unit, gap=" "), replace(unit, text=foreign[place])]
            else:
                found.append(unit)
        return found


@dataclass(frozen=True, kw_only=True)
class DuplicateSentences(SentenceAttack):
    """Repeat sentences, each right after itself."""

    name: ClassVar[str] = "duplicate-sentences"
    min_similarity: float = 0.9

    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        """The units of the attacked text."""
        twice = {places[index] for index in pick(len(places), share=self.share, rng=rng)}
        found: list[Unit] = []
        for place, unit in enumerate(units):
            found += [replace(unit, gap=" "), unit] if place in twice else [unit]
        return found


@dataclass(frozen=True, kw_only=True)
class ShuffleSentences(SentenceAttack):
    """Shuffle sentences; headings, lists and code stay in place.

    Attributes:
        share: of the sentences; none of those chosen stays where it was.
    """

    name: ClassVar[str] = "shuffle-sentences"
    share: float = 1.0
    min_similarity: float = 0.9

    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        """The units of the attacked text."""
        count = how_many(self.share * len(places), most=len(places), rng=rng)
        if count == 1 and len(places) > 1:  # one cannot move alone: two, half of the time
            count = 2 * int(rng.integers(2))
        if count < 2:
            return list(units)
        chosen = rng.choice(places, count, replace=False)
        found = list(units)
        for place, other in zip(chosen, np.roll(chosen, 1), strict=True):
            found[place] = replace(units[place], text=units[other].text)
        return found


def _width(gap: str) -> tuple[int, int]:
    return gap.count("\n"), len(gap)
