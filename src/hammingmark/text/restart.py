"""From where a text that is still growing can be split anew."""

from __future__ import annotations

import re

from hammingmark.text.characters import clean, even_line_ends
from hammingmark.text.cutting import Cut, Forgets, begins_anew, starts
from hammingmark.text.structure import SPECIAL, Block, Kind, blocks

_BLANK_LINE = re.compile(r"\n[> ]*\n")
_ITEM = re.compile(r"^[-*+] ")
_BULLET = re.compile(r"\n[-*+] [^\s~`]")


def restarts_with(cut: Cut, text: str, place: int, *, forgets: Forgets) -> bool:
    """Whether a text can be split from a place on, whatever will follow it.

    Args:
        cut: finds the sentences of prose.
        text: at least three units follow the place.
        place: where a unit ends.
        forgets: what is known of ``cut``.
    """
    before = list(blocks(text[:place]))
    after = clean(even_line_ends(text[place:]))
    if not before or before[-1].kind is Kind.CODE:
        return not before
    if _BLANK_LINE.match(after):
        return True
    # Numbered items, quotes and what may become a table or code decide how later lines are read.
    if _is_numbered(before):
        return False
    if _BULLET.match(after):
        return True
    last = before[-1].body
    begun = clean(even_line_ends(text[:place])).rpartition("\n")[2]
    begun = _ITEM.sub("", begun)
    if ">" in before[-1].marker or not last or not SPECIAL.isdisjoint(last[0] + begun[:1]):
        return False
    line = list(blocks(text))[len(before) - 1].body
    first = len(last) + line[len(last) :].startswith(" ")
    found = [start for start in starts(cut, line, forgets=forgets) if start >= first]
    return (
        line.startswith(last)
        and found[:1] == [first]
        and begins_anew(cut, line, found, forgets=forgets)
    )


def _is_numbered(before: list[Block]) -> bool:
    """Whether there is a numbered item since the last blank line."""
    for block in reversed(before):
        if block.gap == "\n\n":
            return False
        if any(map(str.isdigit, block.marker)):
            return True
    return False
