"""What is done to sentences before any tokenizer sees them."""

from __future__ import annotations

from collections.abc import Sequence

from hammingmark.errors import InputError

MAX_CHARACTERS = 16_384
"""A longer sentence is cut here: tokenizers slow down long before, and no model reads so far."""


def prepare(sentences: Sequence[str], *, prefix: str = "") -> list[str]:
    """Check n sentences, cut the overlong ones and put the model's prefix before each.

    Raises:
        InputError: for a bare string, or an item that is none.
    """
    if isinstance(sentences, str):
        raise InputError("encode takes a list of sentences, not one string. Write [sentence].")
    for index, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise InputError(f"Sentence {index} is a {type(sentence).__name__}, not a string.")
    return [prefix + _encodable(sentence[:MAX_CHARACTERS]) for sentence in sentences]


def _encodable(sentence: str) -> str:
    """Replace each half of a surrogate pair, which UTF-8 has no bytes for, by U+FFFD."""
    if sentence.isascii():
        return sentence
    return sentence.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
