"""Running attacks on texts and measuring what they changed."""

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
    """Attack texts batch by batch and compare each outcome with its original.

    The random generator of a batch is seeded by the seed and the batch's number, so that a run can
    begin at any batch and give the same outcomes.

    Attributes:
        attack: the attack.
        splitter: finds the sentences that are compared.
        judge: embeds them; an encoder that the watermark does not use. None measures no similarity.
        seed: seeds the random generators.
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
            raise InputError(f"seed must not be negative, but is {self.seed}.")

    def run(self, texts: Iterable[str]) -> Iterator[Attacked]:
        """Attack texts and yield a result for each, in order."""
        for batch in self.batches(texts):
            yield from batch

    def batches(self, texts: Iterable[str], *, first: int = 0) -> Iterator[list[Attacked]]:
        """Attack texts and yield the results of each batch.

        Args:
            texts: those of the batch ``first`` and of all later ones.
            first: the number of the first batch.
        """
        remaining = iter(texts)
        for number in count(first):
            batch = list(islice(remaining, self.batch))
            if not batch:
                return
            yield self._attack(batch, number)

    def _attack(self, texts: list[str], number: int) -> list[Attacked]:
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, number]))
        after = self.attack.apply(texts, rng=rng)
        if len(after) != len(texts):
            raise ValueError(f"{self.attack.name} returned {len(after)} texts for {len(texts)}")
        pairs = [
            _Pair(self.splitter.split(old).carrying, self.splitter.split(new).carrying)
            for old, new in zip(texts, after, strict=True)
        ]
        similarities = self._similarities(pairs)
        words = [
            (split_words(old), split_words(new)) for old, new in zip(texts, after, strict=True)
        ]
        least = self.attack.min_similarity
        return [
            Attacked(
                text=new,
                words_changed=share_changed(before, left),
                words_lost=max(0.0, 1.0 - len(left) / len(before)) if before else 0.0,
                sentences_touched=pair.touched,
                similarity=similarity,
                min_similarity=least,
                kept=None if similarity is None else similarity >= least,
            )
            for new, (before, left), pair, similarity in zip(
                after, words, pairs, similarities, strict=True
            )
        ]

    def _similarities(self, pairs: list[_Pair]) -> list[float | None]:
        if self.judge is None:
            return [None] * len(pairs)
        sentences = list(dict.fromkeys(s for pair in pairs for s in pair.to_embed))
        # An encoder need not accept an empty list.
        embeddings = self.judge.encode(sentences) if sentences else np.zeros((0, 1), np.float32)
        indices = {sentence: index for index, sentence in enumerate(sentences)}
        return [pair.similarity(embeddings, indices) for pair in pairs]


class _Pair:
    """The sentences of one text before and after.

    Sentences found again word for word, at any position, are matched first. The others are matched
    in order if both sides have equally many; otherwise each remaining original is matched to the
    most similar sentence of the whole outcome.
    """

    def __init__(self, before: list[str], after: list[str]) -> None:
        self._before = before
        self._after = after
        self._changed = _without(before, after)
        self._new = _without(after, before)

    @property
    def touched(self) -> float:
        """Share of the original sentences that are not found again word for word."""
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

    def similarity(self, embeddings: FloatArray, indices: dict[str, int]) -> float | None:
        """Mean cosine of the original sentences to their matches; None without sentences."""
        if not self._before:
            return None
        kept = len(self._before) - len(self._changed)
        if not self._changed or not self._after:
            return kept / len(self._before)
        left = embeddings[[indices[sentence] for sentence in self._changed]]
        if self._in_order:
            right = embeddings[[indices[sentence] for sentence in self._new]]
            cosines = np.sum(left * right, axis=1)
        else:
            right = embeddings[[indices[sentence] for sentence in self._after]]
            cosines = np.max(left @ right.T, axis=1)
        return float((kept + np.clip(cosines, -1.0, 1.0).sum()) / len(self._before))


def _without(sentences: list[str], others: list[str]) -> list[str]:
    """The sentences without an equal among the others, as a difference of multisets."""
    counts = Counter(others)
    remaining = []
    for sentence in sentences:
        if counts[sentence]:
            counts[sentence] -= 1
        else:
            remaining.append(sentence)
    return remaining
