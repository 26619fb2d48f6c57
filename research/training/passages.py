"""From sections of prose to passages: runs of complete sentences, without near-duplicates."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator

import numpy as np

from hammingmark.protocols import Splitter

SHORTEST, LONGEST = 8, 16
"""Sentences in a passage."""

_FEWEST_WORDS, _MOST_WORDS = 5, 60
_LETTERS = 0.8
# Remains of markup, holes, addresses, and references of an article to itself.
_ODD = re.compile(
    r"[\ufffc\ufffd|<>{}\[\]=\\^~_*#@]|''|\( | \)|&\w+;|https?:|www\.|\bpx\b|\bthumb\b"
    r"|\bsee also\b|\bthis article\b",
    re.IGNORECASE,
)
_OPENING = re.compile(r"[\"'“‘(]*[A-Z0-9À-Þ]")
_CLOSING = re.compile(r"(?<!\bMr)(?<!\bMs)(?<!\bDr)(?<!\bMrs)[.!?…][\"'”’)]*$")
_WORD = re.compile(r"[^\W_]+")
_LAST_LATIN = "\u024f"

_SHINGLE = 6
_KEPT_OF = 4
"""One of this many shingles is stored: enough to recognise a copy, in a quarter of the memory."""


def reads_well(sentence: str) -> bool:
    """Whether a sentence is complete: 5 to 60 words, mostly letters, from capital to full stop."""
    if not _FEWEST_WORDS <= len(sentence.split()) <= _MOST_WORDS or _ODD.search(sentence):
        return False
    if not _OPENING.match(sentence) or not _CLOSING.search(sentence):
        return False
    if sentence.count("(") != sentence.count(")"):
        return False
    ink = sum(not character.isspace() for character in sentence)
    letters = sum(character.isalpha() and character <= _LAST_LATIN for character in sentence)
    return letters >= _LETTERS * ink


def runs(section: str, splitter: Splitter) -> Iterator[list[str]]:
    """Unbroken runs of complete sentences, without repetition within a run."""
    run: list[str] = []
    for unit in splitter.split(section).units:
        if unit.carries and reads_well(unit.text) and unit.text not in run:
            run.append(unit.text)
            continue
        if run:
            yield run
        run = []
    if run:
        yield run


def passages(
    sections: Iterable[str], splitter: Splitter, *, most: int, rng: np.random.Generator
) -> list[list[str]]:
    """At most ``most`` passages of one document, drawn at random, in the document's order."""
    pieces = [
        piece
        for section in sections
        for run in runs(section, splitter)
        for piece in _pieces(run, rng)
    ]
    if len(pieces) > most:
        drawn = np.sort(rng.choice(len(pieces), size=most, replace=False))
        return [pieces[i] for i in drawn]
    return pieces


def _pieces(run: list[str], rng: np.random.Generator) -> Iterator[list[str]]:
    """Cut a run into pieces of random length, 8 to 16 sentences each."""
    start = 0
    while len(run) - start >= SHORTEST:
        length = int(rng.integers(SHORTEST, LONGEST + 1))
        yield run[start : start + length]
        start += length


class Novelty:
    """Recognises passages that repeat an earlier one, word for word or nearly.

    Args:
        most: largest share of known shingles (six consecutive words) of a new passage.
    """

    def __init__(self, *, most: float = 0.1) -> None:
        self._most = most
        self._known: set[int] = set()

    def take(self, sentences: list[str]) -> bool:
        """Whether the passage is new; if it is, remember it."""
        marks = _marks(sentences)
        if marks and len(marks & self._known) > self._most * len(marks):
            return False
        self._known |= marks
        return True


def _marks(sentences: list[str]) -> set[int]:
    words = _WORD.findall(" ".join(sentences).lower())
    shingles = (" ".join(words[i : i + _SHINGLE]) for i in range(len(words) - _SHINGLE + 1))
    # crc32 rather than hash(): the same in every process.
    checksums = (zlib.crc32(shingle.encode("utf-8")) for shingle in shingles)
    return {value for value in checksums if value % _KEPT_OF == 0}
