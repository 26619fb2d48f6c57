"""From texts to the inputs of a method: embeddings of sentences, tokens, or tokens in contexts."""

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
from hammingmark.text.reasoning import without_reasoning
from hammingmark.text.words import split_words

_BATCH_SENTENCES = 4096
_BATCH_TEXTS = 512


@dataclass(frozen=True, slots=True)
class ReadText:
    """One text, ready to be scored.

    Attributes:
        pieces: its sentences or tokens.
        values: the embeddings of its sentences (n, d), or the ids of its tokens (n,), with contexts
            where the method needs them; with ``edits``, the embeddings of all hypotheses, (N, d).
        edits: the edit hypotheses, if the reader makes them.
        samples: for each sentence but the first, the embeddings (k, d) of sentences that the model
            drew in its place, if the reader draws them.
        included: which sentences count, (n,), if not all do.
    """

    pieces: tuple[str, ...]
    values: NDArray[Any]
    edits: EditHypotheses | None = None
    samples: tuple[FloatArray, ...] | None = None
    included: NDArray[np.bool_] | None = None

    @property
    def counted(self) -> int:
        """The number of pieces that count."""
        return len(self.pieces) if self.included is None else int(self.included.sum())


class TextReader(Protocol):
    """Reads texts for one kind of method."""

    @property
    def piece(self) -> str:
        """What it splits texts into, such as ``sentence``."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the component that determines the values."""

    @property
    def edits(self) -> bool:
        """Whether it also makes edit hypotheses."""

    def batches(self, texts: Iterable[str]) -> Iterator[list[ReadText]]:
        """Read texts in order, in batches."""


@dataclass(frozen=True)
class SentenceReader:
    """Splits texts and embeds their sentences.

    Attributes:
        splitter: must be the one that marking used.
        encoder: must be the one that marking used.
        edits: whether sentences may have been joined, split or inserted (`stats.edit_lattice`).
    """

    splitter: Splitter
    encoder: Encoder
    edits: bool = False
    piece = "sentence"

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the encoder."""
        return self.encoder.fingerprint

    def batches(self, texts: Iterable[str]) -> Iterator[list[ReadText]]:
        """Read texts in order, embedding the sentences of many texts together."""
        batch: list[list[str]] = []
        count = 0
        for text in require_texts(texts):
            batch.append(self.splitter.split(text).carrying)
            count += len(batch[-1])
            if count >= _BATCH_SENTENCES or len(batch) >= _BATCH_TEXTS:
                yield self._embed(batch)
                batch, count = [], 0
        if batch:
            yield self._embed(batch)

    def _embed(self, batch: Sequence[Sequence[str]]) -> list[ReadText]:
        hypotheses = [edit_hypotheses(sentences) if self.edits else None for sentences in batch]
        texts = [h.texts if h else s for s, h in zip(batch, hypotheses, strict=True)]
        embeddings = embed_texts(texts, self.encoder.encode)
        return [
            ReadText(tuple(sentences), values, edits)
            for sentences, values, edits in zip(batch, embeddings, hypotheses, strict=True)
        ]


@dataclass(frozen=True)
class TokenReader:
    """Tokenizes texts.

    Attributes:
        tokenizer: must be that of the model that wrote them.
    """

    tokenizer: Tokenizer
    piece = "token"
    edits = False

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the tokenizer."""
        return self.tokenizer.fingerprint

    def batches(self, texts: Iterable[str]) -> Iterator[list[ReadText]]:
        """Read texts one by one."""
        for text in require_texts(texts):
            tokens = self.tokenizer.encode(text.rstrip())  # trailing white space is the file's
            pieces = tuple(self.tokenizer.pieces(tokens))
            yield [ReadText(pieces, np.array(tokens, dtype=np.int64))]


@dataclass(frozen=True)
class ContextReader:
    """Tokenizes texts, and embeds the context of each token.

    Attributes:
        tokenizer: must be that of the model that wrote them.
        encoder: must be the one that marking used.
        rule: determines the context of a token.
    """

    tokenizer: Tokenizer
    encoder: Encoder
    rule: ContextRule
    piece = "token"
    edits = False

    @property
    def fingerprint(self) -> str:
        """The fingerprints of the tokenizer and the encoder."""
        return f"{self.tokenizer.fingerprint}+{self.encoder.fingerprint}"

    def batches(self, texts: Iterable[str]) -> Iterator[list[ReadText]]:
        """Read texts in order, embedding the contexts of many texts together."""
        batch: list[_TokensInContext] = []
        count = 0
        for text in require_texts(texts):
            batch.append(self._tokenize(text))
            count += len(batch[-1].contexts)
            if count >= _BATCH_SENTENCES or len(batch) >= _BATCH_TEXTS:
                yield self._embed(batch)
                batch, count = [], 0
        if batch:
            yield self._embed(batch)

    def _tokenize(self, text: str) -> _TokensInContext:
        tokens = self.tokenizer.encode(text.rstrip())
        pieces = tuple(self.tokenizer.pieces(tokens))
        # The text of the tokens: what preceded a token when it was drawn.
        places = [0, *accumulate(len(piece) for piece in pieces)][:-1]
        contexts, index = self.rule.contexts("".join(pieces), places)
        # The last context may belong to no token, because the text ends before it.
        contexts = contexts[: int(index.max(initial=-1)) + 1]
        return _TokensInContext(np.array(tokens, np.int64), pieces, contexts, index)

    def _embed(self, batch: Sequence[_TokensInContext]) -> list[ReadText]:
        rows = embed_texts([text.contexts for text in batch], self._encode)
        return [
            ReadText(text.pieces, with_contexts(text.tokens, embeddings, text.index))
            for text, embeddings in zip(batch, rows, strict=True)
        ]

    def _encode(self, contexts: list[str]) -> FloatArray:
        if not contexts:
            return np.empty((0, self.encoder.dimension), np.float32)
        return self.encoder.encode(contexts)


@dataclass(frozen=True, slots=True)
class _TokensInContext:
    """A text as tokens (n,), its contexts, and the index of each token's context, (n,)."""

    tokens: NDArray[np.int64]
    pieces: tuple[str, ...]
    contexts: list[str]
    index: NDArray[np.int64]


def require_texts(texts: Iterable[str]) -> Iterator[str]:
    """The texts, checked one by one, without reasoning at their beginnings.

    Raises:
        InputError: a text is not a string.
    """
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"A text to judge must be a string, not a {type(text).__name__}.")
        yield without_reasoning(text)


def embed_texts(
    texts: Sequence[Sequence[str]], encode: Callable[[list[str]], FloatArray]
) -> list[FloatArray]:
    """The embeddings of each text's sentences, (n, d) each.

    Args:
        texts: the sentences of each text.
        encode: the method of an encoder; it gets each distinct sentence once.
    """
    distinct = dict.fromkeys(sentence for text in texts for sentence in text)
    row = {sentence: number for number, sentence in enumerate(distinct)}
    rows = encode(list(distinct))
    return [rows[[row[sentence] for sentence in text]] for text in texts]


# Where two sentences may have been joined: at punctuation inside a sentence, or before brackets at
# its end.
_SEAM = re.compile(r"[;:,]\s+|(?<=\S)\s*—\s*|(?<=\S)\s+(?:–|--?)\s+|(?<=\S)\s+\((?=[^()]*\)\.$)")
# A leading "and" only joins the sentences and is dropped; any other word belongs to the second one.
_AND = re.compile(r"^and\s+")
_CONJUNCTION = re.compile(r"(?:and|but|so|or|yet|while|whereas|though|although)\s")
_MIN_WORDS = 3
_MIN_WORDS_AT_COMMA = 8  # without a conjunction; most such commas join no sentences
_MAX_SEAMS = 8  # seams of a sentence that are tried, those nearest to its middle


def edit_hypotheses(sentences: Sequence[str]) -> EditHypotheses:
    """The n sentences, the two halves of each with a seam, and each joined with the next."""
    n = len(sentences)
    texts = list(sentences)
    begins, ends = list(range(n)), list(range(1, n + 1))
    joint = n  # joints inside sentences are numbered after the last boundary
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
    """The two sentences that were joined, split at the seam nearest to the middle; None if none."""
    middle = len(sentence) / 2
    seams = sorted(_SEAM.finditer(sentence), key=lambda seam: abs(seam.start() - middle))
    for seam in seams[:_MAX_SEAMS]:
        first, second, min_words = sentence[: seam.start()], sentence[seam.end() :], _MIN_WORDS
        if seam.group().startswith(","):
            min_words = _MIN_WORDS if _CONJUNCTION.match(second) else _MIN_WORDS_AT_COMMA
            second = _AND.sub("", second)
        elif seam.group().endswith("("):
            second = f"{second[:-2]}."
        if min(len(split_words(first)), len(split_words(second))) >= min_words:
            return f"{first}.", second[0].upper() + second[1:]
    return None
