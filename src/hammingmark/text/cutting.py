"""From blocks to units, shared by all splitters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from hammingmark.records import Sentences, Unit
from hammingmark.text.structure import Kind, blocks

Cut = Callable[[str], list[str]]
"""Finds the sentences of one line of prose, in order, with or without white space around them."""

Forgets = Callable[[str, int], bool]
"""Whether the sentences of a line after an offset are independent of the text before it."""

# sentencex needs quadratic time on some texts (unbalanced quotes). It gets at most this many
# characters at once, which also limits the length of a sentence.
WINDOW = 8192
SETTLED = 3  # sentences after a boundary, so that no later text can move it

_CHECKBOX = re.compile(r"\[[ xX]\](?: |$)")
_ADDRESS = re.compile(r"[<(]?(?:(?:https?|ftp)://|www\.|mailto:)\S+", re.IGNORECASE)


def never(line: str, place: int) -> bool:
    """False: for libraries of which nothing is known."""
    return False


def split_with(cut: Cut, text: str, *, forgets: Forgets = never) -> Sentences:
    """Normalise a text and cut it into units; ``cut`` finds the sentences of prose.

    The texts and gaps of the units, joined, are ``normalise(text)``, and splitting that again gives
    the same units.
    """
    return Sentences(tuple(_units(cut, text, forgets)))


def carries(sentence: str) -> bool:
    """Whether prose can carry the mark: it has a letter and is not a bare address."""
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
    """The offsets at which the sentences of a line begin, found window by window.

    The next window begins with a sentence at which cutting may restart. If there is none, it begins
    with the last sentence, which may continue after the window. A last sentence that fills half of
    its window or more is cut at the last space instead, or at the end of the window if there is no
    space. So every second window advances by at least half of its length.
    """
    start = 0
    while len(line) - start > WINDOW:
        window = line[start : start + WINDOW]
        offsets = locate(cut(window), window)
        restart = len(offsets) - SETTLED - 1
        while restart > 0 and not begins_anew(cut, window, offsets[restart:], forgets=forgets):
            restart -= 1
        if restart > 0:
            yield from (start + offset for offset in offsets[:restart])
            start += offsets[restart]
            continue
        yield from (start + offset for offset in offsets[:-1])
        if offsets[-1] > WINDOW // 2:
            start += offsets[-1]
            continue
        last = start + offsets[-1]
        yield last
        space = line.rfind(" ", start + WINDOW // 2, start + WINDOW + 1)
        start = space + 1 if space > last else start + WINDOW
    rest = line[start:]
    yield from (start + offset for offset in locate(cut(rest), rest))


def begins_anew(cut: Cut, line: str, offsets: list[int], *, forgets: Forgets) -> bool:
    """Whether the last sentences of a line are the same without the text before them.

    Args:
        cut: finds sentences.
        line: one line of prose.
        offsets: where its last sentences begin.
        forgets: whether ``cut`` is independent of the text before an offset.
    """
    start = offsets[0]
    if not (line[start].isalpha() and forgets(line, start)):
        return False
    return [start + offset for offset in starts(cut, line[start:], forgets=forgets)] == offsets


def locate(sentences: Iterable[str], line: str) -> list[int]:
    """The offsets at which sentences begin in their line; the first is 0.

    The sentences are searched in order, so a library may drop or change white space, and if it
    changes a word only that boundary is lost.
    """
    offsets = [0]
    position = 0
    for sentence in sentences:
        stripped = sentence.strip()
        offset = line.find(stripped, position) if stripped else -1
        if offset < 0:
            continue
        position = offset + len(stripped)
        if offset > offsets[-1]:
            offsets.append(offset)
    return offsets
