"""Texts to what a watermark scores: the embeddings of sentences, tokens, or tokens in contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hammingmark.core.context_tokens import with_contexts
from hammingmark.errors import InputError
from hammingmark.pipeline.edit_hypotheses import edit_hypotheses
from hammingmark.pipeline.embedding import embed_texts
from hammingmark.protocols import Encoder, FloatArray, FollowsContext, Splitter, Tokenizer
from hammingmark.records import EditHypotheses

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
        edits: whether sentences may have been joined, split or inserted (`core.edit_lattice`).
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
        watermark: says what the context of a token is; under any key of its configuration.
    """

    tokenizer: Tokenizer
    encoder: Encoder
    watermark: FollowsContext
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
        contexts, which = self.watermark.contexts("".join(pieces), places)
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
