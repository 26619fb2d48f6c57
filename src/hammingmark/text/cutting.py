"""Blocks to units: what every splitter shares, whatever library finds its sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from hammingmark.records import Sentences, Unit
from hammingmark.text.structure import Kind, blocks

Cut = Callable[[str], list[str]]
"""One line of prose to its sentences, in order; white space around them is free."""

Forgets = Callable[[str, int], bool]
"""Whether what stands before a place in a line has no say in how the line is cut behind it."""

# sentencex needs quadratic time on some texts (unbalanced quotes). It is shown at most this many
# characters at once, which also bounds the length of a sentence.
WINDOW = 8192
SETTLED = 3  # sentences behind a boundary, so that nothing further on can move it

_CHECKBOX = re.compile(r"\[[ xX]\](?: |$)")
_ADDRESS = re.compile(r"[<(]?(?:(?:https?|ftp)://|www\.|mailto:)\S+", re.IGNORECASE)


def never(line: str, place: int) -> bool:
    """Nothing is known of how a line is cut."""
    return False


def split_with(cut: Cut, text: str, *, forgets: Forgets = never) -> Sentences:
    """Normalise a text and cut it into units, with ``cut`` finding the sentences of prose.

    The texts and gaps of the units, joined, are ``normalise(text)``; splitting that again gives
    the same units.
    """
    return Sentences(tuple(_units(cut, text, forgets)))


def carries(sentence: str) -> bool:
    """Whether a piece of prose can carry the mark: it has a letter and is no bare address."""
    return any(map(str.isalpha, sentence)) and not _ADDRESS.fullmatch(sentence)


def _units(cut: Cut, text: str, forgets: Forgets) -> Iterator[Unit]:
    for block in blocks(text):
        if block.kind is not Kind.PROSE:
            yield Unit(block.text, block.gap, carries=False)
            continue
        marker, body = block.marker, block.body
        if marker and (box := _CHECKBOX.match(body)):
            marker, body = f"{marker} {box.group().rstrip()}", body[box.end() :]
        if marker:
            yield Unit(marker, " " if body else block.gap, carries=False)
        if body:
            for start, end in pairwise([*starts(cut, body, forgets=forgets), len(body)]):
                piece = body[start:end]
                sentence = piece.rstrip(" ")
                gap = block.gap if end == len(body) else piece[len(sentence) :]
                yield Unit(sentence, gap, carries(sentence))


def starts(cut: Cut, line: str, *, forgets: Forgets) -> Iterator[int]:
    """Where each sentence of a line begins, looking through a window.

    The next window begins with a sentence from which the line is cut as it is from its start.
    Where there is none, it begins with the last sentence, which may go on behind the window. One
    that takes up half of its window or more is cut at the last space instead, or at the end
    where there is none: every second window moves on by at least half of its length.
    """
    start = 0
    while len(line) - start > WINDOW:
        seen = line[start : start + WINDOW]
        found = locate(cut(seen), seen)
        turn = len(found) - SETTLED - 1
        while turn > 0 and not begins_anew(cut, seen, found[turn:], forgets=forgets):
            turn -= 1
        if turn > 0:
            yield from (start + offset for offset in found[:turn])
            start += found[turn]
            continue
        yield from (start + offset for offset in found[:-1])
        if found[-1] > WINDOW // 2:
            start += found[-1]
            continue
        last = start + found[-1]
        yield last
        space = line.rfind(" ", start + WINDOW // 2, start + WINDOW + 1)
        start = space + 1 if space > last else start + WINDOW
    rest = line[start:]
    yield from (start + offset for offset in locate(cut(rest), rest))


def begins_anew(cut: Cut, line: str, found: list[int], *, forgets: Forgets) -> bool:
    """Whether the last sentences of a line are found alike without what stands before them.

    Args:
        cut: finds sentences.
        line: one line of prose.
        found: where its last sentences begin.
        forgets: what is known of ``cut``.
    """
    start = found[0]
    if not (line[start].isalpha() and forgets(line, start)):
        return False
    return [start + offset for offset in starts(cut, line[start:], forgets=forgets)] == found


def locate(pieces: Iterable[str], line: str) -> list[int]:
    """Where each sentence begins in its line; the first offset is 0.

    The sentences are looked up in order rather than counted, so a library that drops or changes
    white space does no harm, and one that changes a word only loses that boundary.
    """
    offsets = [0]
    position = 0
    for piece in pieces:
        words = piece.strip()
        offset = line.find(words, position) if words else -1
        if offset < 0:
            continue
        position = offset + len(words)
        if offset > offsets[-1]:
            offsets.append(offset)
    return offsets
