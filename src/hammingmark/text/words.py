"""Text to words, and how far two lists of words differ."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from rapidfuzz.distance import Levenshtein

# Scripts written without spaces, in which each character is taken for a word.
_UNSPACED = "\u2e80-\u312f\u3190-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_PIECE = re.compile(rf"[{_UNSPACED}]|[^\s\u2013\u2014\u2026/{_UNSPACED}]+")


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where each word begins and ends, in order.

    A word is what stands between spaces, dashes or slashes, without the punctuation around it;
    an apostrophe or a hyphen inside belongs to it. In Chinese and Japanese each character is a
    word. In other scripts without spaces, such as Thai, a run of characters counts as one.
    """
    return ((start, end) for start, end, _ in _words_in_pieces(text))


def settled_words(text: str) -> Iterator[tuple[int, int, int]]:
    """The words that nothing behind a text can change: where each begins and ends.

    A word is settled when something stands behind it and its punctuation that can belong to
    neither. The third number is how long the text's beginning must be to settle it: a longer one
    has the same words before that place.
    """
    for start, end, last in _words_in_pieces(text):
        if last < len(text):
            yield start, end, last + 1


def split_words(text: str) -> list[str]:
    """The words of a text, in order."""
    return [text[start:end] for start, end in word_spans(text)]


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """How many words, or characters of two texts, to insert, delete or replace."""
    return Levenshtein.distance(left, right)


def share_changed(left: Sequence[str], right: Sequence[str]) -> float:
    """The edit distance over the length of the longer list; 0 for two empty ones."""
    return Levenshtein.normalized_distance(left, right)


def _words_in_pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """Where each word begins and ends, and where the piece ends that it was found in."""
    for piece in _PIECE.finditer(text):
        start, end = piece.span()
        while start < end and _is_punctuation(text[start]):
            start += 1
        while end > start and _is_punctuation(text[end - 1]):
            end -= 1
        if start < end:
            yield start, end, piece.end()


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PSZC"
