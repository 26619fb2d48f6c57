"""Finding the words of a text that an attack may change, and replacing them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from hammingmark.text.words import word_spans

_CODE = re.compile(r"^[ >]*(`{3,}|~{3,}).*?(?:^[ >]*\1[`~]*[ \t]*$|\Z)|`[^`\n]+`", re.M | re.S)
_RUN = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its offsets in the text."""

    text: str
    start: int
    end: int


def prose_words(text: str) -> list[Word]:
    """The words of a text, except those in code and in addresses."""
    is_prose = touchable(text)
    return [Word(text[start:end], start, end) for start, end in word_spans(text) if is_prose(start)]


def touchable(text: str) -> Callable[[int], bool]:
    """A function that tells whether an offset lies outside code and addresses."""
    forbidden = [match.span() for match in _CODE.finditer(text)]
    forbidden += [run.span() for run in _RUN.finditer(text) if _is_address(run.group())]
    forbidden.sort()
    starts = [start for start, _ in forbidden]
    ends = [0, *accumulate((end for _, end in forbidden), max)]  # an address may lie in code
    return lambda offset: ends[bisect_right(starts, offset)] <= offset


def replace_words(text: str, replacements: Mapping[Word, str]) -> str:
    """The text with some words replaced and all other characters unchanged."""
    pieces = []
    position = 0
    for word in sorted(replacements, key=lambda word: word.start):
        pieces += [text[position : word.start], replacements[word]]
        position = word.end
    return "".join([*pieces, text[position:]])


def match_case(word: str, model: str) -> str:
    """A word in the case of another: capitalised, in capitals, or as it is."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def word_set(words: str) -> frozenset[str]:
    """The set of the words in a string."""
    return frozenset(words.split())


def _is_address(run: str) -> bool:
    return "://" in run or "@" in run or run.startswith("www.")
