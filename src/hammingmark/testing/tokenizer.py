"""A tokenizer without a model."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hammingmark.testing.grammar import WORDS

_WORD = re.compile(r" ?\w+| ?[^\w\s]+|\s")
_BYTES = 256


@dataclass(frozen=True)
class FakeTokenizer:
    """A token for each word of a vocabulary; other words are spelled in bytes.

    Tokens 0 ... 255 are bytes. Behind them each word has two tokens: for itself and for itself
    after a space.

    Attributes:
        words: the vocabulary.
        name: what it is called.
    """

    words: tuple[str, ...] = WORDS
    name: str = "fake"

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the vocabulary."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    @property
    def size(self) -> int:
        """V, the number of tokens."""
        return _BYTES + 2 * len(self.words)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; half a surrogate pair is read as a question mark."""
        vocabulary = {piece: _BYTES + at for at, piece in enumerate(self._vocabulary())}
        tokens: list[int] = []
        for piece in _WORD.findall(text):
            known = vocabulary.get(piece)
            tokens += piece.encode("utf-8", "replace") if known is None else [known]
        return tokens

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """What each token adds; a character in several bytes comes with the last of them."""
        vocabulary = self._vocabulary()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        content = [
            bytes([token]) if token < _BYTES else vocabulary[token - _BYTES].encode()
            for token in tokens
        ]
        ends = [False] * (len(content) - 1) + [True]
        return [decoder.decode(each, end) for each, end in zip(content, ends, strict=False)]

    def _vocabulary(self) -> list[str]:
        return [piece for word in self.words for piece in (word, f" {word}")]
