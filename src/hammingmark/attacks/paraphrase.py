"""The two sentence paraphrasers of the literature on semantic watermarks: Parrot and Pegasus.

Each has a plain form and a ``bigram`` form, which takes of all paraphrases the one that shares the
fewest word pairs with the original. The settings are those published with SemStamp, whose code
differs from its description in places; each class documents what it does.

The bigram form was published with BERTScore (a large DeBERTa) and the tokens of OPT. Here any
``judge`` of similarity can be used. An encoder gives the cosine, which falls more slowly than a
rescaled BERTScore, so that the same ``tolerance`` admits more paraphrases. Pairs are counted on
words unless ``tokens`` is given.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np

from hammingmark.attacks.decoding import Decoding
from hammingmark.attacks.segments import Kept, Piece, Tally, change_prose
from hammingmark.attacks.seq2seq import Seq2Seq
from hammingmark.errors import InputError
from hammingmark.pretrained import LIBRARIES
from hammingmark.protocols import Encoder, Splitter
from hammingmark.text.words import edit_distance

Similarity = Callable[[str, Sequence[str]], Sequence[float]]
"""Similarity in meaning of a sentence to each of some others; 1 is identical."""

Tokens = Callable[[str], Sequence[object]]
"""From a sentence to the tokens whose pairs are counted."""

_WORD = re.compile(r"\w+|[^\w\s]")


def similarity_by(judge: Encoder | Similarity) -> Similarity:
    """The similarity by a function, or by the cosine of an encoder's embeddings."""
    if not isinstance(judge, Encoder):
        return judge
    encoder = judge

    def cosine(sentence: str, others: Sequence[str]) -> Sequence[float]:
        vectors = encoder.encode([sentence, *others])
        return [float(value) for value in vectors[1:] @ vectors[0]]

    return cosine


def words(sentence: str) -> list[str]:
    """Words and punctuation marks, in lower case."""
    return _WORD.findall(sentence.lower())


def fewest_shared(
    sentence: str,
    candidates: Sequence[str],
    *,
    similarity: Similarity,
    tolerance: float,
    tokens: Tokens = words,
) -> str:
    """The candidate that shares the fewest pairs of neighbouring tokens with a sentence.

    Eligible candidates have a similarity below the first candidate's by no more than ``tolerance``
    times that similarity, and at most 1.5 times as many tokens as the sentence. Of equals the
    earlier is taken, and the first candidate if none is eligible.
    """
    scores = similarity(sentence, candidates)
    original = list(tokens(sentence))
    pairs = set(pairwise(original))
    chosen, fewest = candidates[0], len(original)
    for candidate, score in zip(candidates, scores, strict=True):
        candidate_tokens = list(tokens(candidate))
        if len(candidate_tokens) > 1.5 * len(original) or scores[0] - score > tolerance * scores[0]:
            continue
        shared = sum(pair in pairs for pair in pairwise(candidate_tokens))
        if shared < fewest:
            chosen, fewest = candidate, shared
    return chosen


Fluency = Callable[[Sequence[str]], Sequence[float]]
"""From sentences to the probability that each is fluent."""

_PARROT_READS = re.compile(r"[^a-zA-Z0-9 ?'\-/:.]")
_PARROT_WRITES = re.compile(r"[^a-zA-Z0-9 ?'\-]")
_ENDS = re.compile(r"[.!?…]['\")\]]*$")


class _Paraphraser(ABC):
    """Base class: several paraphrases per sentence, one of which is chosen."""

    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    min_similarity: float = 0.7
    """Least similarity, by a held-out encoder, at which the outcome counts as the same text."""

    def __init__(
        self,
        model: Seq2Seq,
        *,
        splitter: Splitter,
        judge: Encoder | Similarity | None,
        bigram: bool,
        tolerance: float,
        tokens: Tokens,
        decoding: Decoding,
    ) -> None:
        if bigram and judge is None:
            raise InputError(
                "The bigram form needs a judge of similarity: a function, or an encoder that the "
                "watermark does not use."
            )
        self.tally: Tally = Tally()
        self._model = model
        self._splitter = splitter
        self._similarity = None if judge is None else similarity_by(judge)
        self._bigram = bigram
        self._tolerance = tolerance
        self._tokens = tokens
        self._decoding = decoding

    @property
    @abstractmethod
    def name(self) -> str:
        """The registered name."""

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text; beam search uses no randomness."""

        def change(pieces: list[Piece]) -> list[str | Kept]:
            sentences = [piece.text for piece in pieces]
            paraphrases = self._paraphrases(sentences, rng)
            return [self._choose(*pair) for pair in zip(sentences, paraphrases, strict=True)]

        return change_prose(texts, splitter=self._splitter, change=change, tally=self.tally)

    @abstractmethod
    def _paraphrases(self, sentences: list[str], rng: np.random.Generator) -> list[list[str]]:
        """Paraphrases of each sentence, the preferred one first."""

    def _choose(self, sentence: str, paraphrases: list[str]) -> str | Kept:
        if not paraphrases:
            return Kept("empty")
        if not self._bigram or self._similarity is None:
            return paraphrases[0]
        return fewest_shared(
            sentence,
            paraphrases,
            similarity=self._similarity,
            tolerance=self._tolerance,
            tokens=self._tokens,
        )


class Pegasus(_Paraphraser):
    """Paraphrase with a Pegasus model, by default the one used against SemStamp.

    Published: beams, an input and an output of 60 tokens, a repetition penalty of 1.03, the first
    beam. A temperature of 2 was also published; it had no effect, since beam search does not
    sample, and is omitted. The published bigram form considered only the first beam; here it
    considers all. A sentence of more than 60 tokens loses its end, as published.

    Args:
        model: a folder, or a name on the hub.
        splitter: finds the prose.
        judge: compares meanings in the bigram form.
        bigram: whether to take the paraphrase with the fewest word pairs of the original.
        tolerance: the loss of similarity allowed, as a share of the first beam's.
        tokens: maps a sentence to the tokens whose pairs are counted.
        beams: 10 in the published code, 25 for its published data.
        batch: sentences per batch.
        device: by default a CUDA device if there is one, otherwise the processor.
    """

    def __init__(
        self,
        model: str | Path = "tuner007/pegasus_paraphrase",
        *,
        splitter: Splitter,
        judge: Encoder | Similarity | None = None,
        bigram: bool = False,
        tolerance: float = 0.03,
        tokens: Tokens = words,
        beams: int = 10,
        batch: int = 4,
        device: str | None = None,
    ) -> None:
        super().__init__(
            Seq2Seq(model, batch=batch, device=device, longest=60),
            splitter=splitter,
            judge=judge,
            bigram=bigram,
            tolerance=tolerance,
            tokens=tokens,
            decoding=Decoding(beams=beams, returns=beams, max_length=60, repetition_penalty=1.03),
        )

    @property
    def name(self) -> str:
        """The registered name."""
        return "pegasus-bigram" if self._bigram else "pegasus"

    def _paraphrases(self, sentences: list[str], rng: np.random.Generator) -> list[list[str]]:
        outputs = self._model.write(sentences, decoding=self._decoding, rng=rng)
        return [[text.strip() for text in texts if text.strip()] for texts in outputs]


class Parrot(_Paraphraser):
    """Paraphrase with Parrot, a T5 model with filters behind it.

    Published: diverse beams, an adequacy and a fluency of at least 0.8, and of the remaining
    paraphrases the one farthest from the original by edit distance. A filter that would remove
    all is not applied. Parrot writes lower case without punctuation; a capital and a full stop are
    added, as published. The published code compares paraphrases with the original prefixed by
    "paraphrase: "; here they are compared with the original alone.

    Published adequacy comes from an entailment model, published fluency from a classifier. Here
    adequacy is the similarity by the ``judge``, and without ``fluency`` all paraphrases are fluent.

    Args:
        model: a folder, or a name on the hub.
        splitter: finds the prose.
        judge: compares meanings; without it all paraphrases are adequate.
        fluency: the published filter, or another one.
        bigram: whether to take the paraphrase with the fewest word pairs of the original.
        tolerance: the loss of similarity allowed, as a share of the farthest one's.
        tokens: maps a sentence to the tokens whose pairs are counted.
        beams: paraphrases per sentence.
        max_length: most tokens of a paraphrase; 32 more if the sentence has at least that many
            characters.
        adequacy: least similarity.
        fluent: least fluency.
        device: by default a CUDA device if there is one, otherwise the processor.
    """

    def __init__(
        self,
        model: str | Path = "prithivida/parrot_paraphraser_on_T5",
        *,
        splitter: Splitter,
        judge: Encoder | Similarity | None = None,
        fluency: Fluency | None = None,
        bigram: bool = False,
        tolerance: float = 0.03,
        tokens: Tokens = words,
        beams: int = 10,
        max_length: int = 60,
        adequacy: float = 0.8,
        fluent: float = 0.8,
        device: str | None = None,
    ) -> None:
        super().__init__(
            Seq2Seq(model, device=device),
            splitter=splitter,
            judge=judge,
            bigram=bigram,
            tolerance=tolerance,
            tokens=tokens,
            decoding=Decoding(
                beams=beams,
                returns=beams,
                groups=_groups(beams),
                diversity=2.0,
                max_length=max_length,
            ),
        )
        self._fluency = fluency
        self._adequacy = adequacy
        self._fluent = fluent

    @property
    def name(self) -> str:
        """The registered name."""
        return "parrot-bigram" if self._bigram else "parrot"

    def _paraphrases(self, sentences: list[str], rng: np.random.Generator) -> list[list[str]]:
        limit = self._decoding.max_length or 0
        paraphrases: list[list[str]] = [[] for _ in sentences]
        for is_long in (False, True):
            indices = [
                i for i, sentence in enumerate(sentences) if (len(sentence) >= limit) is is_long
            ]
            outputs = self._model.write(
                ["paraphrase: " + _PARROT_READS.sub("", sentences[i]) for i in indices],
                decoding=replace(self._decoding, max_length=limit + 32 * is_long),
                rng=rng,
            )
            for i, texts in zip(indices, outputs, strict=True):
                paraphrases[i] = self._filter(sentences[i], texts)
        return paraphrases

    def _filter(self, sentence: str, outputs: list[str]) -> list[str]:
        """The adequate and fluent paraphrases, the farthest from the sentence first."""
        plain = (" ".join(_PARROT_WRITES.sub("", text.lower()).split()) for text in outputs)
        remaining = [text for text in dict.fromkeys(plain) if text]
        if remaining and self._similarity is not None:
            remaining = _at_least(self._adequacy, remaining, self._similarity(sentence, remaining))
        if remaining and self._fluency is not None:
            remaining = _at_least(self._fluent, remaining, self._fluency(remaining))
        remaining.sort(key=lambda text: -edit_distance(sentence.lower(), text))
        return [_well_formed(text) for text in remaining]


def _groups(beams: int) -> int:
    """The smallest number from 2 to 8 of equal groups of beams; 1 if there is none."""
    return next((count for count in range(2, 9) if beams % count == 0), 1)


def _at_least(least: float, texts: list[str], scores: Sequence[float]) -> list[str]:
    """The texts that score at least ``least``, or all texts if none does."""
    return [t for t, score in zip(texts, scores, strict=True) if score >= least] or texts


def _well_formed(text: str) -> str:
    """The text with a capital at its start, a capital "I" and a full stop."""
    text = re.sub(r"\bi\b", "I", text[:1].upper() + text[1:])
    return text if _ENDS.search(text) else text + "."
