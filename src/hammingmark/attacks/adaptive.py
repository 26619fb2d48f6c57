"""Attackers who know the method but not the key.

They ask another attack for several versions of each sentence and keep the one that seems to damage
the mark most: judged by how far embeddings move or, with access to a detector, by its answer.
A version is never used if the judge finds it too dissimilar to the original sentence.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import ClassVar

import numpy as np

from hammingmark.errors import InputError
from hammingmark.protocols import Attack, Encoder, FloatArray, Splitter
from hammingmark.records import Sentences, Unit, Verdict

Oracle = Callable[[str], "float | Verdict"]
"""A detector's answer for a text: a score that is higher for marked text, or a verdict."""

_Versions = Sequence[Sequence[str]]  # of each sentence, the sentence itself first
_Embeddings = dict[str, FloatArray]  # embeddings
_LEAST_P = 1e-12  # so that every p-value has a logarithm


class _Text:
    """A text under attack: its units, and the indices of its sentences."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = list(units)
        self._places = [place for place, unit in enumerate(units) if unit.carries]

    @property
    def sentences(self) -> list[str]:
        """The current sentences."""
        return [self._units[place].text for place in self._places]

    @property
    def text(self) -> str:
        """The whole text."""
        return Sentences(tuple(self._units)).text.strip()

    def around(self, number: int) -> tuple[str, str]:
        """The neighbours of a sentence on its line, with the gaps between."""
        place = self._places[number]
        before = self._units[place - 1] if place else None
        after = self._units[place + 1] if place + 1 < len(self._units) else None
        return (
            before.text + before.gap if before and before.carries else "",
            self._units[place].gap + after.text if after and after.carries else "",
        )

    def with_sentences(self, sentences: Mapping[int, str]) -> _Text:
        """The text with some sentences replaced, by their numbers."""
        units = self._units.copy()
        for number, sentence in sentences.items():
            place = self._places[number]
            units[place] = replace(units[place], text=sentence)
        return _Text(units)


@dataclass(frozen=True, kw_only=True)
class _VersionAttack:
    """Common to these attackers: versions of a sentence, and a judge that filters them.

    All texts are attacked side by side, so that a rewriting model gets large batches.

    Attributes:
        inner: the attack that rewrites sentences; it is called with sentences as texts.
        splitter: finds the sentences.
        encoder: the watermark's, if the attacker knows it, otherwise one like it.
        judge: the encoder that measures similarity to the original; by default ``encoder``.
        versions: versions of a sentence to ask for at a time.
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
            raise InputError(f"versions must be at least 1, not {self.versions}.")
        if not -1.0 <= self.min_similarity <= 1.0:
            raise InputError(
                f"min_similarity must be a cosine from -1 to 1, not {self.min_similarity:g}."
            )

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text, with all randomness drawn from ``rng``."""
        units = [self.splitter.split(text).units for text in texts]
        return [attacked.text for attacked in self._attack([*map(_Text, units)], rng=rng)]

    @abstractmethod
    def _attack(self, texts: list[_Text], *, rng: np.random.Generator) -> list[_Text]:
        """The attacked texts, in order."""

    def _propose(
        self,
        places: Sequence[tuple[_Text, int]],
        originals: Sequence[str],
        *,
        rng: np.random.Generator,
    ) -> list[list[str]]:
        """For each sentence, the sentence itself and every new version that fits and is similar.

        Args:
            places: texts, and the number of the sentence to rewrite, in its current version.
            originals: the sentences that the judge compares with, in the same order.
            rng: the random generator.
        """
        current = [text.sentences[number] for text, number in places]
        repeated = [sentence for sentence in current for _ in range(self.versions)]
        answers = self.inner.apply(repeated, rng=rng)
        versions: list[list[str]] = []
        for count, (sentence, (text, number)) in enumerate(zip(current, places, strict=True)):
            distinct = dict.fromkeys(answers[count * self.versions : (count + 1) * self.versions])
            fitting = self._fitting(distinct, *text.around(number))
            versions.append(list(dict.fromkeys([sentence, *fitting])))
        return self._keep_similar(versions, originals)

    def _fitting(self, texts: Iterable[str], before: str, after: str) -> Iterator[str]:
        """The versions, normalised, that are one sentence both alone and between its neighbours."""
        counts = [len(self.splitter.split(neighbour).units) for neighbour in (before, after)]
        for text in texts:
            single = self.splitter.split(text).units
            if len(single) != 1 or not single[0].carries:
                continue
            version = single[0].text
            units = self.splitter.split(before + version + after).units
            if len(units) == sum(counts) + 1 and units[counts[0]].text == version:
                yield version

    def _keep_similar(self, versions: _Versions, originals: Sequence[str]) -> list[list[str]]:
        embeddings = embed(self.judge or self.encoder, [*originals, *chain(*versions)])
        return [
            [
                version
                for rank, version in enumerate(options)
                # The current sentence has passed before, so rounding must not exclude it now.
                if rank == 0
                or float(embeddings[version] @ embeddings[original]) >= self.min_similarity
            ]
            for options, original in zip(versions, originals, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class _DistanceAttack(_VersionAttack):
    """Common to attackers who only compare embeddings.

    Attributes:
        rounds: how many times each sentence is rewritten, from the version chosen last.
    """

    rounds: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < 1:
            raise InputError(f"rounds must be at least 1, not {self.rounds}.")

    def _attack(self, texts: list[_Text], *, rng: np.random.Generator) -> list[_Text]:
        originals = [sentence for text in texts for sentence in text.sentences]
        for _ in range(self.rounds):
            places = [(text, index) for text in texts for index in range(len(text.sentences))]
            versions = self._propose(places, originals, rng=rng)
            embeddings = embed(self.encoder, [*originals, *chain(*versions)])
            remaining, sources = iter(versions), iter(originals)
            for number, text in enumerate(texts):
                size = len(text.sentences)
                chosen = self._choose(
                    list(islice(remaining, size)), list(islice(sources, size)), embeddings
                )
                texts[number] = text.with_sentences(dict(enumerate(chosen)))
        return texts

    @abstractmethod
    def _choose(
        self, versions: _Versions, originals: Sequence[str], embeddings: _Embeddings
    ) -> list[str]:
        """One version of each sentence, given the embeddings of all."""


@dataclass(frozen=True, kw_only=True)
class DistanceSeeking(_DistanceAttack):
    """Of several versions per sentence, keep the one least similar to its neighbours.

    Neighbours whose embeddings point in different directions share fewer bits under any key. The
    choice is greedy from left to right: the preceding sentence is the version chosen for it, the
    following one its current version.
    """

    name: ClassVar[str] = "distance-seeking"

    def _choose(
        self, versions: _Versions, originals: Sequence[str], embeddings: _Embeddings
    ) -> list[str]:
        chosen: list[str] = []
        for index, options in enumerate(versions):
            neighbours = chosen[-1:] + [
                following[0] for following in versions[index + 1 : index + 2]
            ]
            similarity = [
                sum(float(embeddings[option] @ embeddings[neighbour]) for neighbour in neighbours)
                for option in options
            ]
            chosen.append(options[int(np.argmin(similarity))])
        return chosen


@dataclass(frozen=True, kw_only=True)
class BoundarySeeking(_DistanceAttack):
    """Of several versions per sentence, keep the one farthest from the original.

    A random hyperplane separates two embeddings with probability angle / π, so without the key the
    largest angle gives the largest expected number of flipped bits.
    """

    name: ClassVar[str] = "boundary-seeking"

    def _choose(
        self, versions: _Versions, originals: Sequence[str], embeddings: _Embeddings
    ) -> list[str]:
        chosen: list[str] = []
        for options, original in zip(versions, originals, strict=True):
            cosines = [float(embeddings[option] @ embeddings[original]) for option in options]
            chosen.append(options[int(np.argmin(cosines))])
        return chosen


@dataclass
class Ledger:
    """The queries of an attacker to a detector.

    Attributes:
        queries: their number, over all texts.
        paths: for each text, the number of queries so far and the score, at the first query and at
            every change that was kept.
    """

    queries: int = 0
    paths: list[list[tuple[int, float]]] = field(default_factory=list)


class _QueryState:
    """The state of the attack on one text."""

    def __init__(self, text: _Text, score: float) -> None:
        self.text = text
        self.originals = text.sentences
        self.score = score
        self.queried = {text.text}
        self.path = [(1, score)]
        self.pending: dict[int, list[str]] = {}  # versions of each sentence to query
        self.turn = 0
        self.idle = 0  # sentences in a row without a version to query

    @property
    def place(self) -> int:
        """The number of the sentence whose turn it is."""
        return self.turn % len(self.originals)

    def next_trial(self, splitter: Splitter) -> _Text | None:
        """The text with the next version of the current sentence, unless it was queried before."""
        pending = self.pending.get(self.place, [])
        while pending:
            trial = self.text.with_sentences({self.place: pending.pop(0)})
            # Its neighbours may have changed since the version was drawn.
            whole = splitter.split(trial.text).carrying == trial.sentences
            if whole and trial.text not in self.queried:
                return trial
        return None

    def keep(self, text: _Text, score: float) -> None:
        """Continue from this version, and discard pending versions of the old sentence."""
        self.text, self.score = text, score
        self.path.append((len(self.queried), score))
        self.pending[self.place] = []


@dataclass(frozen=True, kw_only=True)
class OracleGuided(_VersionAttack):
    """Reword one sentence after the other and keep versions with a lower detector score.

    Sentences take turns, with one query each. Versions are tried in the order of their distance
    from the original by the encoder, the farthest first: it has flipped the most bits. No text is
    queried twice.

    Attributes:
        oracle: the detector; it is called with whole texts, and calls are counted in ``ledger``.
        queries: most calls for one text, including the one for the text as it was.
        enough: the score to stop at; None continues until the queries are used up.
        ties: whether to keep a change that does not change the score. A detector that only says
            yes or no gives no slope to follow; changes then accumulate until it says no.
        ledger: the queries so far.
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
            raise InputError(f"queries must be at least 1, not {self.queries}.")

    def _attack(self, texts: list[_Text], *, rng: np.random.Generator) -> list[_Text]:
        states = [_QueryState(text, self._query(text)) for text in texts]
        self.ledger.paths += [state.path for state in states]
        while running := [state for state in states if self._can_continue(state)]:
            self._refill(
                [state for state in running if not state.pending.get(state.place)], rng=rng
            )
            for state in running:
                trial = state.next_trial(self.splitter)
                state.idle = 0 if trial else state.idle + 1
                if trial:
                    self._try(state, trial)
                state.turn += 1
        return [state.text for state in states]

    def _refill(self, states: list[_QueryState], *, rng: np.random.Generator) -> None:
        """Add versions of the current sentences, the farthest from the originals first."""
        if not states:
            return
        originals = [state.originals[state.place] for state in states]
        versions = self._propose(
            [(state.text, state.place) for state in states], originals, rng=rng
        )
        embeddings = embed(self.encoder, [*originals, *chain(*versions)])
        for state, original, options in zip(states, originals, versions, strict=True):
            similarity = {
                option: float(embeddings[option] @ embeddings[original]) for option in options
            }
            current = similarity.pop(options[0])
            if self.ties:  # without a slope to follow, query only versions that move away
                similarity = {
                    option: value for option, value in similarity.items() if value < current
                }
            state.pending[state.place] = sorted(similarity, key=similarity.__getitem__)

    def _try(self, state: _QueryState, trial: _Text) -> None:
        score = self._query(trial)
        state.queried.add(trial.text)
        if score < state.score or (self.ties and score == state.score):
            state.keep(trial, score)

    def _can_continue(self, state: _QueryState) -> bool:
        is_done = self.enough is not None and state.score <= self.enough
        can_query = len(state.queried) < self.queries and state.idle < 2 * len(state.originals)
        return can_query and not is_done

    def _query(self, text: _Text) -> float:
        self.ledger.queries += 1
        return score_of(self.oracle(text.text))


def score_of(answer: float | Verdict) -> float:
    """An oracle's answer as a score that is higher for marked text: for a verdict, -log10 p."""
    if not isinstance(answer, Verdict):
        return float(answer)
    return 0.0 if answer.p_value is None else -math.log10(max(answer.p_value, _LEAST_P))


def embed(encoder: Encoder, sentences: Sequence[str]) -> _Embeddings:
    """The embedding of each distinct sentence."""
    distinct = list(dict.fromkeys(sentences))
    return dict(zip(distinct, encoder.encode(distinct), strict=True))
