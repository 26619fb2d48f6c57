"""Attackers who know the method and not the key.

They ask another attack for several versions of each sentence and keep the one that hurts most as
far as they can tell: without the key by how far embeddings move, with a detector by its answer.
A version that a judge finds too unlike the original sentence is never used.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from hammingmark.attacks.each import EachText
from hammingmark.errors import InputError
from hammingmark.protocols import Attack, Encoder, FloatArray, Splitter
from hammingmark.records import Sentences, Unit, Verdict

Oracle = Callable[[str], "float | Verdict"]
"""What a detector says of a text: a number that is higher for marked text, or its verdict."""

_LEAST_P = 1e-12  # so that a p-value has a logarithm


@dataclass(frozen=True, kw_only=True)
class _Versions(EachText):
    """What these attackers share: versions of a sentence, and a judge of them.

    Attributes:
        inner: rewrites sentences; called with one sentence as a text.
        splitter: finds the sentences.
        encoder: the watermark's, if the attacker knows it, otherwise one like it.
        judge: says how similar a version still is; by default the encoder itself.
        versions: how many versions of a sentence are asked for at a time.
        keeps: least cosine of a version to its original sentence, by the judge.
    """

    inner: Attack
    splitter: Splitter
    encoder: Encoder
    judge: Encoder | None = None
    versions: int = 8
    keeps: float = 0.7

    def __post_init__(self) -> None:
        if self.versions < 1:
            raise InputError(f"At least 1 version is needed, not {self.versions}.")
        if not -1.0 <= self.keeps <= 1.0:
            raise InputError(f"keeps is a cosine, from -1 to 1, not {self.keeps:g}.")

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        units = list(self.splitter.split(text).units)
        places = [place for place, unit in enumerate(units) if unit.carries]
        if not places:
            return Sentences(tuple(units)).text.strip()
        return self._text(self._attack(units, places, rng=rng))

    @abstractmethod
    def _attack(
        self, units: list[Unit], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        """The units of the attacked text; ``places`` says which are sentences."""

    @staticmethod
    def _text(units: Sequence[Unit]) -> str:
        return Sentences(tuple(units)).text.strip()

    def _offer(
        self, current: Sequence[str], originals: Sequence[str], *, rng: np.random.Generator
    ) -> list[list[str]]:
        """For each sentence, itself and every new version that the judge lets pass.

        Args:
            current: what stands there now and is rewritten.
            originals: what the judge compares with, in the same order.
            rng: the dice.
        """
        asked = [sentence for sentence in current for _ in range(self.versions)]
        answers = self.inner.apply(asked, rng=rng)
        offers: list[list[str]] = []
        for number, sentence in enumerate(current):
            rows = answers[number * self.versions : (number + 1) * self.versions]
            fresh = [found for row in rows if (found := self._one_sentence(row)) is not None]
            offers.append(list(dict.fromkeys([sentence, *fresh])))
        return self._let_pass(offers, originals)

    def _one_sentence(self, text: str) -> str | None:
        """The version, normalised; None unless it is one sentence that can carry a mark."""
        units = self.splitter.split(text).units
        return units[0].text if len(units) == 1 and units[0].carries else None

    def _let_pass(
        self, offers: Sequence[Sequence[str]], originals: Sequence[str]
    ) -> list[list[str]]:
        rows = embed(self.judge or self.encoder, [*originals, *(s for o in offers for s in o)])
        return [
            [
                version
                for rank, version in enumerate(offer)
                # What stands there has passed before: a bound that rounding misses changes nothing.
                if rank == 0 or float(rows[version] @ rows[original]) >= self.keeps
            ]
            for offer, original in zip(offers, originals, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class _ByDistance(_Versions):
    """Attackers who look at embeddings only.

    Attributes:
        rounds: how often the versions chosen are rewritten again.
    """

    rounds: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < 1:
            raise InputError(f"At least 1 round is needed, not {self.rounds}.")

    def _attack(
        self, units: list[Unit], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        originals = [units[place].text for place in places]
        chosen = originals
        for _ in range(self.rounds):
            offers = self._offer(chosen, originals, rng=rng)
            rows = embed(self.encoder, [*originals, *(s for offer in offers for s in offer)])
            chosen = self._choose(offers, originals, rows)
        for place, sentence in zip(places, chosen, strict=True):
            units[place] = replace(units[place], text=sentence)
        return units

    @abstractmethod
    def _choose(
        self,
        offers: Sequence[Sequence[str]],
        originals: Sequence[str],
        rows: dict[str, FloatArray],
    ) -> list[str]:
        """One version of each sentence; ``rows`` has every embedding."""


@dataclass(frozen=True, kw_only=True)
class DistanceSeeking(_ByDistance):
    """Keep of each sentence's versions the one that is least like its neighbours.

    Neighbours that point elsewhere share fewer bits under any key. Greedy from left to right: the
    sentence before is the one chosen, the sentence behind stands as it does now.
    """

    name: ClassVar[str] = "distance-seeking"

    def _choose(
        self,
        offers: Sequence[Sequence[str]],
        originals: Sequence[str],
        rows: dict[str, FloatArray],
    ) -> list[str]:
        chosen: list[str] = []
        for place, offer in enumerate(offers):
            beside = chosen[-1:] + [after[0] for after in offers[place + 1 : place + 2]]
            likeness = [sum(float(rows[each] @ rows[b]) for b in beside) for each in offer]
            chosen.append(offer[int(np.argmin(likeness))])
        return chosen


@dataclass(frozen=True, kw_only=True)
class BoundarySeeking(_ByDistance):
    """Keep of each sentence's versions the one that moved farthest from the original.

    A random hyperplane parts two embeddings with probability angle / π, so without the key the
    greatest angle is the greatest expected number of flipped bits.
    """

    name: ClassVar[str] = "boundary-seeking"

    def _choose(
        self,
        offers: Sequence[Sequence[str]],
        originals: Sequence[str],
        rows: dict[str, FloatArray],
    ) -> list[str]:
        return [
            offer[int(np.argmin([float(rows[each] @ rows[original]) for each in offer]))]
            for offer, original in zip(offers, originals, strict=True)
        ]


@dataclass
class Ledger:
    """What an attacker asked a detector.

    Attributes:
        queries: how often it was asked, over all texts.
        accepted: how many changes were kept.
        scores: of each text, the first and the last score that the attacker saw.
    """

    queries: int = 0
    accepted: int = 0
    scores: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class OracleGuided(_Versions):
    """Rewrite sentence after sentence and keep what the detector likes less.

    Attributes:
        oracle: the detector; it is called with a whole text and counted in ``ledger``.
        queries: most calls for one text, the first look at the text included.
        enough: stop once the score is at most this; None goes on while there are queries.
        ties: whether to keep a change that leaves the score as it was. A detector that only says
            yes or no gives no slope to follow; then changes pile up until it says no.
        ledger: what was asked so far.
    """

    name: ClassVar[str] = "oracle-guided"
    oracle: Oracle
    queries: int = 100
    enough: float | None = None
    ties: bool = False
    ledger: Ledger = field(default_factory=Ledger, init=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.queries < 1:
            raise InputError(f"At least 1 query is needed, not {self.queries}.")

    def _attack(
        self, units: list[Unit], places: list[int], *, rng: np.random.Generator
    ) -> list[Unit]:
        originals = [units[place].text for place in places]
        first = score = self._ask(units)
        left = self.queries - 1
        idle = 0  # sentences in a row of which there was no version to ask about
        turn = 0
        while left and idle < 2 * len(places) and not self._is_enough(score):
            place, original = places[turn % len(places)], originals[turn % len(places)]
            (offer,) = self._offer([units[place].text], [original], rng=rng)
            for version in offer[1:]:
                trial = [*units[:place], replace(units[place], text=version), *units[place + 1 :]]
                seen = self._ask(trial)
                left -= 1
                if seen < score or (self.ties and seen == score):
                    units, score = trial, seen
                    self.ledger.accepted += 1
                if not left or self._is_enough(score):
                    break
            idle = 0 if len(offer) > 1 else idle + 1
            turn += 1
        self.ledger.scores.append((first, score))
        return units

    def _ask(self, units: Sequence[Unit]) -> float:
        self.ledger.queries += 1
        return score_of(self.oracle(self._text(units)))

    def _is_enough(self, score: float) -> bool:
        return self.enough is not None and score <= self.enough


def score_of(answer: float | Verdict) -> float:
    """An oracle's answer as a number that is higher for marked text: of a verdict, -log10 p."""
    if not isinstance(answer, Verdict):
        return float(answer)
    return 0.0 if answer.p_value is None else -math.log10(max(answer.p_value, _LEAST_P))


def embed(encoder: Encoder, sentences: Sequence[str]) -> dict[str, FloatArray]:
    """Each different sentence and its embedding."""
    different = list(dict.fromkeys(sentences))
    return dict(zip(different, encoder.encode(different), strict=True))
