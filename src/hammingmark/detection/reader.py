"""Texts to what a watermark scores: the embeddings of sentences, tokens, or tokens in contexts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.protocols import ContextRule, Encoder, FloatArray, Splitter, Tokenizer
from hammingmark.records import EditHypotheses
from hammingmark.text.context_tokens import with_contexts
from hammingmark.text.words import split_words

_BATCH_SENTENCES = 4096
_BATCH_TEXTS = 512


@dataclass(frozen=True, slots=True)
class ReadText:
    """One text, ready to be scored.

    Attributes:
        pieces: its sentences or tokens, as they stand.
        values: their embeddings (n, d), or their numbers (n,), perhaps with contexts; with
            ``edits``, the embeddings of all that the sentences may have been, (N, d).
        edits: what they may have been, if that is asked.
        samples: for each sentence but the first, the embeddings (k, d) of what a model drew in its
            place, if that is asked.
    """

    pieces: tuple[str, ...]
    values: NDArray[Any]
    edits: EditHypotheses | None = None
    samples: tuple[FloatArray, ...] | None = None


class TextReader(Protocol):
    """Texts to what a kind of watermark scores."""

    @property
    def piece(self) -> str:
        """What a text is made of, such as ``sentence``."""

    @property
    def fingerprint(self) -> str:
        """Of the part that decides the values."""

    @property
    def edits(self) -> bool:
        """Whether it also reads what the sentences may have been."""

    def batches(self, texts: Iterable[str]) -> Iterator[list[ReadText]]:
        """Read texts in order, many at a time."""


@dataclass(frozen=True)
class SentenceReader:
    """Splits texts and embeds their sentences.

    Attributes:
        splitter: must be the one that marking used.
        encoder: likewise.
        edits: whether sentences may have been joined, split or inserted (`stats.edit_lattice`).
    """

    splitter: Splitter
    encoder: Encoder
    edits: bool = False
    piece = "sentence"

    @property
    def fingerprint(self) -> str:
        """The encoder's."""
        return self.encoder.fingerprint

    def batches(self, texts: Iterable[str]) -> Iterator[list[ReadText]]:
        """Read texts in order, embedding the sentences of many at a time."""
        batch: list[list[str]] = []
        held = 0
        for text in require_texts(texts):
            batch.append(self.splitter.split(text).carrying)
            held += len(batch[-1])
            if held >= _BATCH_SENTENCES or len(batch) >= _BATCH_TEXTS:
                yield self._embed(batch)
                batch, held = [], 0
        if batch:
            yield self._embed(batch)

    def _embed(self, batch: Sequence[Sequence[str]]) -> list[ReadText]:
        edits = [edit_hypotheses(each) if self.edits else None for each in batch]
        texts = [e.texts if e else s for s, e in zip(batch, edits, strict=True)]
        rows = embed_texts(texts, self.encoder.encode)
        return [
            ReadText(tuple(sentences), values, each)
            for sentences, values, each in zip(batch, rows, edits, strict=True)
        ]


@dataclass(frozen=True)
class TokenReader:
    """Makes tokens of texts.

    Attributes:
        tokenizer: must be that of the model that wrote them.
    """

    tokenizer: Tokenizer
    piece = "token"
    edits = False

    @property
    def fingerprint(self) -> str:
        """The tokenizer's."""
        return self.tokenizer.fingerprint

    def batches(self, texts: Iterable[str]) -> Iterator[list[ReadText]]:
        """Read texts one by one."""
        for text in require_texts(texts):
            tokens = self.tokenizer.encode(text.rstrip())  # what a file ends with was not drawn
            pieces = tuple(self.tokenizer.pieces(tokens))
            yield [ReadText(pieces, np.array(tokens, dtype=np.int64))]


@dataclass(frozen=True)
class ContextReader:
    """Makes tokens of texts, and embeds the text before each as far as it counts.

    Attributes:
        tokenizer: must be that of the model that wrote them.
        encoder: must be the one that marking used.
        rule: says what the context of a token is.
    """

    tokenizer: Tokenizer
    encoder: Encoder
    rule: ContextRule
    piece = "token"
    edits = False

    @property
    def fingerprint(self) -> str:
        """The tokenizer's and the encoder's."""
        return f"{self.tokenizer.fingerprint}+{self.encoder.fingerprint}"

    def batches(self, texts: Iterable[str]) -> Iterator[list[ReadText]]:
        """Read texts in order, embedding the contexts of many at a time."""
        batch: list[_InContexts] = []
        held = 0
        for text in require_texts(texts):
            batch.append(self._cut(text))
            held += len(batch[-1].contexts)
            if held >= _BATCH_SENTENCES or len(batch) >= _BATCH_TEXTS:
                yield self._embed(batch)
                batch, held = [], 0
        if batch:
            yield self._embed(batch)

    def _cut(self, text: str) -> _InContexts:
        tokens = self.tokenizer.encode(text.rstrip())
        pieces = tuple(self.tokenizer.pieces(tokens))
        # The text that the tokens make: what stood before a token when it was drawn.
        places = [0, *accumulate(len(piece) for piece in pieces)][:-1]
        contexts, which = self.rule.contexts("".join(pieces), places)
        # The last context may be that of a token that does not come any more.
        asked = contexts[: int(which.max(initial=-1)) + 1]
        return _InContexts(np.array(tokens, np.int64), pieces, asked, which)

    def _embed(self, batch: Sequence[_InContexts]) -> list[ReadText]:
        rows = embed_texts([each.contexts for each in batch], self._encode)
        return [
            ReadText(each.pieces, with_contexts(each.tokens, embeddings, each.which))
            for each, embeddings in zip(batch, rows, strict=True)
        ]

    def _encode(self, contexts: list[str]) -> FloatArray:
        if not contexts:
            return np.empty((0, self.encoder.dimension), np.float32)
        return self.encoder.encode(contexts)


@dataclass(frozen=True, slots=True)
class _InContexts:
    """A text in tokens (n,), its contexts, and the number of each token's, (n,)."""

    tokens: NDArray[np.int64]
    pieces: tuple[str, ...]
    contexts: list[str]
    which: NDArray[np.int64]


def require_texts(texts: Iterable[str]) -> Iterator[str]:
    """The texts, each of which must be one.

    Raises:
        InputError: a text is no string.
    """
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"A text to judge is a string, not a {type(text).__name__}.")
        yield text


def embed_texts(
    texts: Sequence[Sequence[str]], encode: Callable[[list[str]], FloatArray]
) -> list[FloatArray]:
    """The embeddings of each text's sentences, (n, d) each.

    Args:
        texts: the sentences of each text.
        encode: an encoder's method; it is given each different sentence once.
    """
    different = dict.fromkeys(sentence for text in texts for sentence in text)
    row = {sentence: number for number, sentence in enumerate(different)}
    rows = encode(list(different))
    return [rows[[row[sentence] for sentence in text]] for text in texts]


# Where two sentences may have been joined: at a mark inside a sentence, or at brackets that end it.
_SEAM = re.compile(r"[;:,]\s+|(?<=\S)\s*—\s*|(?<=\S)\s+(?:–|--?)\s+|(?<=\S)\s+\((?=[^()]*\)\.$)")
# A bare "and" is only the joint and goes with it; any other word belongs to the second sentence.
_AND = re.compile(r"^and\s+")
_CONJUNCTION = re.compile(r"(?:and|but|so|or|yet|while|whereas|though|although)\s")
_LEAST_WORDS = 3
_LEAST_AROUND_COMMA = 8  # where no conjunction follows; most such commas join no sentences
_MOST_TRIED = 8  # seams of a sentence, those nearest to its middle


def edit_hypotheses(sentences: Sequence[str]) -> EditHypotheses:
    """The n sentences, the two halves of each that has a seam, and each with the one behind it."""
    n = len(sentences)
    texts = list(sentences)
    begins, ends = list(range(n)), list(range(1, n + 1))
    joint = n  # joints inside sentences are counted on from the last boundary
    for place, sentence in enumerate(sentences):
        if halves := _halves(sentence):
            joint += 1
            texts += halves
            begins += [place, joint]
            ends += [joint, place + 1]
    for place in range(n - 1):
        texts.append(f"{sentences[place]} {sentences[place + 1]}")
        begins.append(place)
        ends.append(place + 2)
    return EditHypotheses(tuple(texts), tuple(begins), tuple(ends), sentences=n)


def _halves(sentence: str) -> tuple[str, str] | None:
    """What a sentence was if it was two: cut at the seam nearest to its middle, if there is one."""
    middle = len(sentence) / 2
    seams = sorted(_SEAM.finditer(sentence), key=lambda seam: abs(seam.start() - middle))
    for seam in seams[:_MOST_TRIED]:
        first, second, least = sentence[: seam.start()], sentence[seam.end() :], _LEAST_WORDS
        if seam.group().startswith(","):
            least = _LEAST_WORDS if _CONJUNCTION.match(second) else _LEAST_AROUND_COMMA
            second = _AND.sub("", second)
        elif seam.group().endswith("("):
            second = f"{second[:-2]}."
        if min(len(split_words(first)), len(split_words(second))) >= least:
            return f"{first}.", second[0].upper() + second[1:]
    return None
