"""Text to words, the distance between two lists of words, and whether they are English."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from rapidfuzz.distance import Levenshtein

# Scripts written without spaces, in which each character counts as a word.
_UNSPACED = "\u2e80-\u312f\u3190-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_RUN = re.compile(rf"[{_UNSPACED}]|[^\s\u2013\u2014\u2026/{_UNSPACED}]+")

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_HEAD = 20_000  # characters that are examined
_FEWEST = 30  # words; fewer are too few to decide
_ENOUGH = 60  # words; of fewer, none may be common: so are 1 in 1,000 runs of 30 in an encyclopedia
_LEAST = 0.04  # share of common words; English prose has 0.15 to 0.35, other languages hardly any

# Words that are common in English and in no other language in Latin script; so "a", "in", "of",
# "was", "for", "had" and the like are omitted.
_COMMON = frozenset(
    _WORD.findall("""
    the and to that it with he be by you are this have from not but they which she or were been
    their has would there what will if can more when out up about them then its into could some
    other than only your how any these such new now people also because through where after know
    very even most made while
    """)
)


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each word, in order.

    A word is a run of characters between spaces, dashes or slashes, without the punctuation around
    it; an apostrophe or a hyphen inside belongs to it. In Chinese and Japanese each character is a
    word. In other scripts without spaces, such as Thai, a run of characters counts as one.
    """
    return ((start, end) for start, end, _ in _words_in_runs(text))


def settled_words(text: str) -> Iterator[tuple[int, int, int]]:
    """The start and end of each word that following text cannot change, and where it is settled.

    A word is settled once a character follows that belongs neither to the word nor to the
    punctuation after it. The third number is the offset after that character: any text with the
    same beginning up to there has the same words in it.
    """
    for start, end, run_end in _words_in_runs(text):
        if run_end < len(text):
            yield start, end, run_end + 1


def split_words(text: str) -> list[str]:
    """The words of a text, in order."""
    return [text[start:end] for start, end in word_spans(text)]


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """The number of words, or characters of two texts, to insert, delete or replace."""
    return Levenshtein.distance(left, right)


def share_changed(left: Sequence[str], right: Sequence[str]) -> float:
    """The edit distance divided by the length of the longer list; 0 for two empty ones."""
    return Levenshtein.normalized_distance(left, right)


def is_english(text: str) -> bool | None:
    """Whether a text is English; None if it is too short to tell."""
    words = _WORD.findall(text[:_HEAD].lower().replace("’", "'"))
    letters = sum(map(str.isalpha, text[:_HEAD]))
    plain = sum(character.isascii() for character in text[:_HEAD] if character.isalpha())
    if letters >= 2 * _ENOUGH and plain < letters / 2:  # another script, with or without spaces
        return False
    if len(words) < _FEWEST:
        return None
    common = sum(word in _COMMON for word in words)
    return common >= (_LEAST * len(words) if len(words) >= _ENOUGH else 1)


def _words_in_runs(text: str) -> Iterator[tuple[int, int, int]]:
    """The start and end of each word, and the end of its run of characters without separators."""
    for run in _RUN.finditer(text):
        start, end = run.span()
        while start < end and _is_punctuation(text[start]):
            start += 1
        while end > start and _is_punctuation(text[end - 1]):
            end -= 1
        if start < end:
            yield start, end, run.end()


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PSZC"
