"""Which words of a text an attack may touch, and putting changed ones in their places."""

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
    """One word and its place in the text."""

    text: str
    start: int
    end: int


def prose_words(text: str) -> list[Word]:
    """The words of a text, without those in code and in addresses."""
    prose = may_touch(text)
    return [Word(text[start:end], start, end) for start, end in word_spans(text) if prose(start)]


def may_touch(text: str) -> Callable[[int], bool]:
    """Whether a place of the text lies outside code and addresses, as a function."""
    forbidden = [match.span() for match in _CODE.finditer(text)]
    forbidden += [run.span() for run in _RUN.finditer(text) if _is_address(run.group())]
    forbidden.sort()
    starts = [start for start, _ in forbidden]
    ends = [0, *accumulate((end for _, end in forbidden), max)]  # an address may lie in code
    return lambda place: ends[bisect_right(starts, place)] <= place


def replace_words(text: str, changed: Mapping[Word, str]) -> str:
    """The text with some words changed and every other character as it was."""
    pieces = []
    position = 0
    for word in sorted(changed, key=lambda each: each.start):
        pieces += [text[position : word.start], changed[word]]
        position = word.end
    return "".join([*pieces, text[position:]])


def like(word: str, model: str) -> str:
    """A word in the capitals of another: ``Big``, ``BIG`` or as it is."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def listed(words: str) -> frozenset[str]:
    """A set of words that are written one after the other."""
    return frozenset(words.split())


def _is_address(run: str) -> bool:
    return "://" in run or "@" in run or run.startswith("www.")
