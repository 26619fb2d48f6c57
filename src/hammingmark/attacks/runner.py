"""Texts to attacked texts, with an account of what each attack did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice

import numpy as np

from hammingmark.errors import InputError
from hammingmark.protocols import Attack, Encoder, FloatArray, Splitter
from hammingmark.records import Attacked
from hammingmark.text.words import share_changed, split_words


@dataclass(frozen=True)
class AttackRunner:
    """Attack texts batch by batch and compare each with what it was.

    The dice of a batch come from the seed and the batch's number, so that a run can begin at any
    batch and gives what it would have given.

    Attributes:
        attack: what is done to them.
        splitter: finds the sentences that are compared.
        judge: embeds them; an encoder that the watermark does not use. None compares no meaning.
        seed: decides the dice.
        batch: texts that are attacked together.
    """

    attack: Attack
    splitter: Splitter
    judge: Encoder | None = None
    seed: int = 0
    batch: int = 32

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InputError(f"batch must be at least 1, not {self.batch}.")
        if self.seed < 0:
            raise InputError(f"seed must not be negative, and {self.seed} is.")

    def run(self, texts: Iterable[str]) -> Iterator[Attacked]:
        """Attack texts and tell of each, in order."""
        for batch in self.batches(texts):
            yield from batch

    def batches(self, texts: Iterable[str], *, first: int = 0) -> Iterator[list[Attacked]]:
        """The same batch by batch.

        Args:
            texts: those of the batch ``first`` and of all behind it.
            first: the number of the batch to begin with.
        """
        waiting = iter(texts)
        for number in count(first):
            batch = list(islice(waiting, self.batch))
            if not batch:
                return
            yield self._attack(batch, number)

    def _attack(self, texts: list[str], number: int) -> list[Attacked]:
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, number]))
        after = self.attack.apply(texts, rng=rng)
        if len(after) != len(texts):
            raise ValueError(f"{self.attack.name} gave back {len(after)} of {len(texts)} texts")
        pairs = [
            _Pair(self.splitter.split(old).carrying, self.splitter.split(new).carrying)
            for old, new in zip(texts, after, strict=True)
        ]
        likenesses = self._likenesses(pairs)
        bound = self.attack.min_similarity
        return [
            Attacked(
                text=new,
                words_changed=share_changed(split_words(old), split_words(new)),
                sentences_touched=pair.touched,
                similarity=likeness,
                min_similarity=bound,
                kept=None if likeness is None else likeness >= bound,
            )
            for old, new, pair, likeness in zip(texts, after, pairs, likenesses, strict=True)
        ]

    def _likenesses(self, pairs: list[_Pair]) -> list[float | None]:
        if self.judge is None:
            return [None] * len(pairs)
        sentences = list(dict.fromkeys(s for pair in pairs for s in pair.to_embed))
        # An encoder need not know what to do with nothing.
        rows = self.judge.encode(sentences) if sentences else np.zeros((0, 1), np.float32)
        places = {sentence: place for place, sentence in enumerate(sentences)}
        return [pair.likeness(rows, places) for pair in pairs]


class _Pair:
    """The sentences of one text before and after.

    Sentences that are there word for word, wherever they went, are matched first. What remains
    on both sides is matched in order if it is as many, and otherwise each remaining original is
    given the most similar sentence of the whole outcome.
    """

    def __init__(self, before: list[str], after: list[str]) -> None:
        self._before = before
        self._after = after
        self._changed = _without(before, after)
        self._new = _without(after, before)

    @property
    def touched(self) -> float:
        """Share of the original sentences that are not there word for word."""
        return len(self._changed) / len(self._before) if self._before else 0.0

    @property
    def to_embed(self) -> list[str]:
        """The sentences whose embeddings are needed."""
        if not self._changed:
            return []
        return self._changed + (self._new if self._in_order else self._after)

    @property
    def _in_order(self) -> bool:
        return len(self._changed) == len(self._new)

    def likeness(self, rows: FloatArray, places: dict[str, int]) -> float | None:
        """Mean over the original sentences of the cosine to their match; None without any."""
        if not self._before:
            return None
        kept = len(self._before) - len(self._changed)
        if not self._changed or not self._after:
            return kept / len(self._before)
        left = rows[[places[sentence] for sentence in self._changed]]
        if self._in_order:
            right = rows[[places[sentence] for sentence in self._new]]
            cosines = np.sum(left * right, axis=1)
        else:
            right = rows[[places[sentence] for sentence in self._after]]
            cosines = np.max(left @ right.T, axis=1)
        return float((kept + np.clip(cosines, -1.0, 1.0).sum()) / len(self._before))


def _without(sentences: list[str], others: list[str]) -> list[str]:
    """The sentences that have no equal among the others, each of which serves once."""
    there = Counter(others)
    left = []
    for sentence in sentences:
        if there[sentence]:
            there[sentence] -= 1
        else:
            left.append(sentence)
    return left
