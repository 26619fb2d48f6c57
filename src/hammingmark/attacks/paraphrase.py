"""The two sentence paraphrasers of the literature on semantic watermarks: Parrot and Pegasus.

Each has a plain form and a ``bigram`` form, which takes of all paraphrases the one that shares the
fewest word pairs with the original. The settings are those published with SemStamp. Its code
differs from its description in places; each class says what is done here.

The bigram form was published with BERTScore (a large DeBERTa) and the tokens of OPT. Here any
``judge`` of similarity will do. With an encoder it is the cosine, which falls more slowly than a
rescaled BERTScore, so that the same ``tolerance`` lets more paraphrases through; word pairs are
counted on words unless ``tokens`` says otherwise.
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
"""How similar in meaning a sentence is to each of some others; 1 is the same."""

Tokens = Callable[[str], Sequence[object]]
"""A sentence to the tokens whose pairs are counted."""

_WORD = re.compile(r"\w+|[^\w\s]")


def similarity_by(judge: Encoder | Similarity) -> Similarity:
    """A similarity as it is, or the cosine of an encoder's embeddings."""
    if not isinstance(judge, Encoder):
        return judge
    encoder = judge

    def cosine(sentence: str, others: Sequence[str]) -> Sequence[float]:
        vectors = encoder.encode([sentence, *others])
        return [float(each) for each in vectors[1:] @ vectors[0]]

    return cosine


def words(sentence: str) -> list[str]:
    """Words and punctuation marks, in small letters."""
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

    Only those count whose similarity is below the first candidate's by no more than ``tolerance``
    times that similarity, and which have at most half as many tokens more than the sentence. Of
    equals the earlier is taken, and the first candidate if none counts.
    """
    scores = similarity(sentence, candidates)
    original = list(tokens(sentence))
    known = set(pairwise(original))
    chosen, fewest = candidates[0], len(original)
    for candidate, score in zip(candidates, scores, strict=True):
        written = list(tokens(candidate))
        if len(written) > 1.5 * len(original) or scores[0] - score > tolerance * scores[0]:
            continue
        shared = sum(pair in known for pair in pairwise(written))
        if shared < fewest:
            chosen, fewest = candidate, shared
    return chosen


Fluency = Callable[[Sequence[str]], Sequence[float]]
"""How likely each of some sentences is to be fluent."""

_PARROT_READS = re.compile(r"[^a-zA-Z0-9 ?'\-/:.]")
_PARROT_WRITES = re.compile(r"[^a-zA-Z0-9 ?'\-]")
_ENDS = re.compile(r"[.!?…]['\")\]]*$")


class _Paraphraser(ABC):
    """What both share: sentence by sentence, several paraphrases, one of them chosen."""

    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    min_similarity: float = 0.7
    """The least similarity, by a held-out encoder, at which it is still the same text."""

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
                "The bigram form needs a judge of similarity: an encoder that the watermark does "
                "not use, or a function."
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
        """Attack each text; beam search draws nothing at random."""

        def change(pieces: list[Piece]) -> list[str | Kept]:
            sentences = [piece.text for piece in pieces]
            offered = self._paraphrases(sentences, rng)
            return [self._choose(*each) for each in zip(sentences, offered, strict=True)]

        return change_prose(texts, splitter=self._splitter, change=change, tally=self.tally)

    @abstractmethod
    def _paraphrases(self, sentences: list[str], rng: np.random.Generator) -> list[list[str]]:
        """Paraphrases of each sentence, the preferred one first."""

    def _choose(self, sentence: str, offered: list[str]) -> str | Kept:
        if not offered:
            return Kept("empty")
        if not self._bigram or self._similarity is None:
            return offered[0]
        return fewest_shared(
            sentence,
            offered,
            similarity=self._similarity,
            tolerance=self._tolerance,
            tokens=self._tokens,
        )


class Pegasus(_Paraphraser):
    """Paraphrase with a Pegasus model, by default the one that SemStamp was attacked with.

    Published: beams, an input and an output of 60 tokens, a repetition penalty of 1.03, the first
    beam. A temperature of 2 was given too; beams do not draw, so it did nothing and is left out.
    The published bigram form saw the first beam only; here it sees them all. A sentence of more
    than 60 tokens loses its end, as published.

    Args:
        model: a folder, or a name on the hub.
        splitter: says what is prose.
        judge: compares meanings in the bigram form.
        bigram: whether to take the paraphrase with the fewest word pairs of the original.
        tolerance: how much similarity it may cost, as a share of the first beam's.
        tokens: a sentence to the tokens whose pairs are counted.
        beams: 10 in the published code, 25 for its published data.
        batch: sentences that are read together.
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
        written = self._model.write(sentences, decoding=self._decoding, rng=rng)
        return [[text.strip() for text in each if text.strip()] for each in written]


class Parrot(_Paraphraser):
    """Paraphrase with Parrot, a T5 model with filters behind it.

    Published: diverse beams, an adequacy and a fluency of at least 0.8, and of what is left the
    one that is farthest from the original by edit distance. Where a filter leaves nothing it is
    not applied. Parrot writes small letters without punctuation; a capital and a full stop are
    added, as published. The published code compares paraphrases with the original behind the
    words "paraphrase: "; here with the original.

    Adequacy was published as the verdict of an entailment model, fluency as that of a classifier.
    Here adequacy is the similarity of the ``judge``, and without ``fluency`` all are fluent.

    Args:
        model: a folder, or a name on the hub.
        splitter: says what is prose.
        judge: compares meanings; without one all paraphrases are adequate.
        fluency: the published filter, or one's own.
        bigram: whether to take the paraphrase with the fewest word pairs of the original.
        tolerance: how much similarity it may cost, as a share of the farthest one's.
        tokens: a sentence to the tokens whose pairs are counted.
        beams: paraphrases per sentence.
        max_length: tokens of a paraphrase; 32 more for a sentence of so many characters or more.
        adequacy: the least similarity.
        fluent: the least fluency.
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
        short = self._decoding.max_length or 0
        offered: list[list[str]] = [[] for _ in sentences]
        for is_long in (False, True):
            chosen = [i for i, each in enumerate(sentences) if (len(each) >= short) is is_long]
            written = self._model.write(
                ["paraphrase: " + _PARROT_READS.sub("", sentences[i]) for i in chosen],
                decoding=replace(self._decoding, max_length=short + 32 * is_long),
                rng=rng,
            )
            for i, texts in zip(chosen, written, strict=True):
                offered[i] = self._filter(sentences[i], texts)
        return offered

    def _filter(self, sentence: str, written: list[str]) -> list[str]:
        """Those that are adequate and fluent, the farthest from the sentence first."""
        plain = (" ".join(_PARROT_WRITES.sub("", text.lower()).split()) for text in written)
        left = [text for text in dict.fromkeys(plain) if text]
        if left and self._similarity is not None:
            left = _at_least(self._adequacy, left, self._similarity(sentence, left))
        if left and self._fluency is not None:
            left = _at_least(self._fluent, left, self._fluency(left))
        left.sort(key=lambda text: -edit_distance(sentence.lower(), text))
        return [_well_formed(text) for text in left]


def _groups(beams: int) -> int:
    """The smallest number of groups from 2 to 8 that the beams can be parted into; 1 if none."""
    return next((count for count in range(2, 9) if beams % count == 0), 1)


def _at_least(least: float, texts: list[str], scores: Sequence[float]) -> list[str]:
    """The texts that score so much, or all of them if none does."""
    return [t for t, score in zip(texts, scores, strict=True) if score >= least] or texts


def _well_formed(text: str) -> str:
    """A sentence with a capital, a capital "I" and an end."""
    text = re.sub(r"\bi\b", "I", text[:1].upper() + text[1:])
    return text if _ENDS.search(text) else text + "."
