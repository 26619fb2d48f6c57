"""Offsets at which splitting a growing text may restart."""

from __future__ import annotations

import re

from hammingmark.text.characters import clean, cleans_alone, even_line_ends
from hammingmark.text.cutting import Cut, Forgets, begins_anew, starts
from hammingmark.text.structure import SPECIAL, Block, Kind, blocks

_BLANK_LINE = re.compile(r"\n[> ]*\n")
_ITEM = re.compile(r"^[-*+] ")
_BULLET = re.compile(r"\n[-*+] [^\s~`]")


def restarts_with(cut: Cut, text: str, place: int, *, forgets: Forgets) -> bool:
    """Whether a text can be split from an offset on, whatever will follow the text.

    Args:
        cut: finds the sentences of prose.
        text: at least three units follow the offset.
        place: the offset at which a unit ends.
        forgets: whether ``cut`` is independent of the text before an offset.
    """
    before = list(blocks(text[:place]))
    rest = even_line_ends(text[place:])
    after = clean(rest)
    if not before or before[-1].kind is Kind.CODE:
        return not before
    if not cleans_alone(rest):
        return False
    if _BLANK_LINE.match(after):
        return True
    # Numbered items, quotes, and lines that may become a table or code decide how later lines are
    # read.
    if _is_numbered(before):
        return False
    if _BULLET.match(after):
        return True
    last = before[-1].body
    last_line = clean(even_line_ends(text[:place])).rpartition("\n")[2]
    last_line = _ITEM.sub("", last_line)
    if ">" in before[-1].marker or not last or not SPECIAL.isdisjoint(last[0] + last_line[:1]):
        return False
    line = list(blocks(text))[len(before) - 1].body
    first = len(last) + line[len(last) :].startswith(" ")
    offsets = [start for start in starts(cut, line, forgets=forgets) if start >= first]
    return (
        line.startswith(last)
        and offsets[:1] == [first]
        and begins_anew(cut, line, offsets, forgets=forgets)
    )


def _is_numbered(before: list[Block]) -> bool:
    """Whether there is a numbered item since the last blank line."""
    for block in reversed(before):
        if block.gap == "\n\n":
            return False
        if any(map(str.isdigit, block.marker)):
            return True
    return False
