"""Attackers who know the method and not the key.

They ask another attack for several versions of each sentence and keep the one that hurts most as
far as they can tell: without the key by how far embeddings move, with a detector by its answer.
A version that a judge finds too unlike the original sentence is never used.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import ClassVar

import numpy as np

from hammingmark.errors import InputError
from hammingmark.protocols import Attack, Encoder, FloatArray, Splitter
from hammingmark.records import Sentences, Unit, Verdict

Oracle = Callable[[str], "float | Verdict"]
"""What a detector says of a text: a number that is higher for marked text, or its verdict."""

_Offers = Sequence[Sequence[str]]  # for each sentence, itself and its versions
_Rows = dict[str, FloatArray]  # embeddings
_LEAST_P = 1e-12  # so that a p-value has a logarithm


class _Page:
    """A text in work: its units, and at which of them its sentences stand."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = list(units)
        self._places = [place for place, unit in enumerate(units) if unit.carries]

    @property
    def sentences(self) -> list[str]:
        """What stands there now."""
        return [self._units[place].text for place in self._places]

    @property
    def text(self) -> str:
        """The whole."""
        return Sentences(tuple(self._units)).text.strip()

    def around(self, number: int) -> tuple[str, str]:
        """What stands on the lines of this sentence right before and behind it, with the gaps."""
        place = self._places[number]
        before = self._units[place - 1] if place else None
        behind = self._units[place + 1] if place + 1 < len(self._units) else None
        return (
            before.text + before.gap if before and before.carries else "",
            self._units[place].gap + behind.text if behind and behind.carries else "",
        )

    def with_sentences(self, sentences: Mapping[int, str]) -> _Page:
        """The same with other sentences in these places."""
        units = self._units.copy()
        for number, sentence in sentences.items():
            place = self._places[number]
            units[place] = replace(units[place], text=sentence)
        return _Page(units)


@dataclass(frozen=True, kw_only=True)
class _Versions:
    """What these attackers share: versions of a sentence, and a judge of them.

    All texts are worked on side by side, so that a model that rewrites gets large batches.

    Attributes:
        inner: rewrites sentences; called with sentences as texts.
        splitter: finds the sentences.
        encoder: the watermark's, if the attacker knows it, otherwise one like it.
        judge: says how similar a version still is; by default the encoder itself.
        versions: how many versions per sentence are asked for at a time.
        min_similarity: least cosine of a version to its original sentence, by the judge.
    """

    inner: Attack
    splitter: Splitter
    encoder: Encoder
    judge: Encoder | None = None
    versions: int = 8
    min_similarity: float = 0.7

    def __post_init__(self) -> None:
        if self.versions < 1:
            raise InputError(f"At least 1 version is needed, not {self.versions}.")
        if not -1.0 <= self.min_similarity <= 1.0:
            raise InputError(
                f"min_similarity is a cosine, from -1 to 1, not {self.min_similarity:g}."
            )

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text, with all randomness drawn from ``rng``."""
        pages = [_Page(self.splitter.split(text).units) for text in texts]
        return [page.text for page in self._attack(pages, rng=rng)]

    @abstractmethod
    def _attack(self, pages: list[_Page], *, rng: np.random.Generator) -> list[_Page]:
        """The attacked texts, in order."""

    def _offer(
        self,
        places: Sequence[tuple[_Page, int]],
        originals: Sequence[str],
        *,
        rng: np.random.Generator,
    ) -> list[list[str]]:
        """For each sentence, itself and every new version that fits and that the judge lets pass.

        Args:
            places: pages, and which of its sentences is rewritten, as it stands there now.
            originals: what the judge compares with, in the same order.
            rng: the dice.
        """
        current = [page.sentences[number] for page, number in places]
        asked = [sentence for sentence in current for _ in range(self.versions)]
        answers = self.inner.apply(asked, rng=rng)
        offers: list[list[str]] = []
        for count, (sentence, (page, number)) in enumerate(zip(current, places, strict=True)):
            rows = dict.fromkeys(answers[count * self.versions : (count + 1) * self.versions])
            fresh = self._fitting(rows, *page.around(number))
            offers.append(list(dict.fromkeys([sentence, *fresh])))
        return self._let_pass(offers, originals)

    def _fitting(self, texts: Iterable[str], before: str, behind: str) -> Iterator[str]:
        """The versions, normalised, that are one sentence, also between their neighbours."""
        around = [len(self.splitter.split(beside).units) for beside in (before, behind)]
        for text in texts:
            alone = self.splitter.split(text).units
            if len(alone) != 1 or not alone[0].carries:
                continue
            version = alone[0].text
            units = self.splitter.split(before + version + behind).units
            if len(units) == sum(around) + 1 and units[around[0]].text == version:
                yield version

    def _let_pass(self, offers: _Offers, originals: Sequence[str]) -> list[list[str]]:
        rows = embed(self.judge or self.encoder, [*originals, *(s for o in offers for s in o)])
        return [
            [
                version
                for rank, version in enumerate(offer)
                # What stands there has passed before: a bound that rounding misses changes nothing.
                if rank == 0 or float(rows[version] @ rows[original]) >= self.min_similarity
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

    def _attack(self, pages: list[_Page], *, rng: np.random.Generator) -> list[_Page]:
        originals = [sentence for page in pages for sentence in page.sentences]
        for _ in range(self.rounds):
            places = [(page, place) for page in pages for place in range(len(page.sentences))]
            offers = self._offer(places, originals, rng=rng)
            rows = embed(self.encoder, [*originals, *(s for offer in offers for s in offer)])
            given, old = iter(offers), iter(originals)
            for number, page in enumerate(pages):
                size = len(page.sentences)
                chosen = self._choose(list(islice(given, size)), list(islice(old, size)), rows)
                pages[number] = page.with_sentences(dict(enumerate(chosen)))
        return pages

    @abstractmethod
    def _choose(self, offers: _Offers, originals: Sequence[str], rows: _Rows) -> list[str]:
        """One version of each sentence; ``rows`` has every embedding."""


@dataclass(frozen=True, kw_only=True)
class DistanceSeeking(_ByDistance):
    """Of several versions per sentence, keep the one least similar to its neighbours.

    Neighbours that point elsewhere share fewer bits under any key. Greedy from left to right: the
    sentence before is the one chosen, the sentence behind stands as it does now.
    """

    name: ClassVar[str] = "distance-seeking"

    def _choose(self, offers: _Offers, originals: Sequence[str], rows: _Rows) -> list[str]:
        chosen: list[str] = []
        for place, offer in enumerate(offers):
            beside = chosen[-1:] + [after[0] for after in offers[place + 1 : place + 2]]
            likeness = [sum(float(rows[each] @ rows[b]) for b in beside) for each in offer]
            chosen.append(offer[int(np.argmin(likeness))])
        return chosen


@dataclass(frozen=True, kw_only=True)
class BoundarySeeking(_ByDistance):
    """Of several versions per sentence, keep the one farthest from the original.

    A random hyperplane parts two embeddings with probability angle / π, so without the key the
    greatest angle is the greatest expected number of flipped bits.
    """

    name: ClassVar[str] = "boundary-seeking"

    def _choose(self, offers: _Offers, originals: Sequence[str], rows: _Rows) -> list[str]:
        return [
            offer[int(np.argmin([float(rows[each] @ rows[original]) for each in offer]))]
            for offer, original in zip(offers, originals, strict=True)
        ]


@dataclass
class Ledger:
    """What an attacker asked a detector.

    Attributes:
        queries: how often it was asked, over all texts.
        paths: of each text, how often the detector had been asked about it and what it said, at
            the first look and at every change that was kept.
    """

    queries: int = 0
    paths: list[list[tuple[int, float]]] = field(default_factory=list)


class _Talk:
    """One text that a detector is asked about, and what came of it so far."""

    def __init__(self, page: _Page, score: float) -> None:
        self.page = page
        self.originals = page.sentences
        self.score = score
        self.asked = {page.text}
        self.path = [(1, score)]
        self.waiting: dict[int, list[str]] = {}  # versions of each sentence to ask about
        self.turn = 0
        self.idle = 0  # sentences in a row of which there was nothing to ask

    @property
    def place(self) -> int:
        """The sentence whose turn it is."""
        return self.turn % len(self.originals)

    def next_trial(self, splitter: Splitter) -> _Page | None:
        """The text with the next version of the sentence whose turn it is, if it is a new text."""
        waiting = self.waiting.get(self.place, [])
        while waiting:
            trial = self.page.with_sentences({self.place: waiting.pop(0)})
            # Its neighbours may have changed since the version was drawn.
            whole = splitter.split(trial.text).carrying == trial.sentences
            if whole and trial.text not in self.asked:
                return trial
        return None

    def keep(self, page: _Page, score: float) -> None:
        """Go on from this version of the text; what waits for this sentence was made of another."""
        self.page, self.score = page, score
        self.path.append((len(self.asked), score))
        self.waiting[self.place] = []


@dataclass(frozen=True, kw_only=True)
class OracleGuided(_Versions):
    """Reword sentence after sentence and keep what the detector likes less.

    Of each sentence in turn he asks about one version, the one that the encoder puts farthest from
    the original first: it has flipped the most bits. He never asks the same twice.

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

    def _attack(self, pages: list[_Page], *, rng: np.random.Generator) -> list[_Page]:
        talks = [_Talk(page, self._ask(page)) for page in pages]
        self.ledger.paths += [talk.path for talk in talks]
        while going := [talk for talk in talks if self._goes_on(talk)]:
            self._draw([talk for talk in going if not talk.waiting.get(talk.place)], rng=rng)
            for talk in going:
                trial = talk.next_trial(self.splitter)
                talk.idle = 0 if trial else talk.idle + 1
                if trial:
                    self._try(talk, trial)
                talk.turn += 1
        return [talk.page for talk in talks]

    def _draw(self, talks: list[_Talk], *, rng: np.random.Generator) -> None:
        """Versions of the sentences whose turn it is, farthest from the originals first."""
        if not talks:
            return
        originals = [talk.originals[talk.place] for talk in talks]
        offers = self._offer([(talk.page, talk.place) for talk in talks], originals, rng=rng)
        rows = embed(self.encoder, [*originals, *(s for offer in offers for s in offer)])
        for talk, original, offer in zip(talks, originals, offers, strict=True):
            likeness = {each: float(rows[each] @ rows[original]) for each in offer}
            now = likeness.pop(offer[0])
            if self.ties:  # without a slope to follow, only what moves on is worth a question
                likeness = {each: value for each, value in likeness.items() if value < now}
            talk.waiting[talk.place] = sorted(likeness, key=likeness.__getitem__)

    def _try(self, talk: _Talk, trial: _Page) -> None:
        seen = self._ask(trial)
        talk.asked.add(trial.text)
        if seen < talk.score or (self.ties and seen == talk.score):
            talk.keep(trial, seen)

    def _goes_on(self, talk: _Talk) -> bool:
        beaten = self.enough is not None and talk.score <= self.enough
        left = len(talk.asked) < self.queries and talk.idle < 2 * len(talk.originals)
        return left and not beaten

    def _ask(self, page: _Page) -> float:
        self.ledger.queries += 1
        return score_of(self.oracle(page.text))


def score_of(answer: float | Verdict) -> float:
    """An oracle's answer as a number that is higher for marked text: of a verdict, -log10 p."""
    if not isinstance(answer, Verdict):
        return float(answer)
    return 0.0 if answer.p_value is None else -math.log10(max(answer.p_value, _LEAST_P))


def embed(encoder: Encoder, sentences: Sequence[str]) -> _Rows:
    """Each different sentence and its embedding."""
    different = list(dict.fromkeys(sentences))
    return dict(zip(different, encoder.encode(different), strict=True))
