"""Texts to the pieces of prose that a model rewrites, and back to texts.

Code, tables, headings, list marks and the white space between pieces stay as they are. What a
model gives back must be prose that fits where the piece stood; otherwise the piece is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hammingmark.protocols import Splitter
from hammingmark.records import Unit

Grain = Literal["sentence", "paragraph", "document"]
"""What is rewritten at once: a sentence, a paragraph, or all prose up to the next code or heading.
"""

Tally = Counter[str]
"""How many pieces came to which end: ``changed``, ``same``, or why a piece was kept."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some prose of one text.

    Attributes:
        document: number of the text it stands in.
        text: the prose; sentences with the white space between them.
        sentences: how many there are.
        before: the sentences of prose that stand before it in its text, in order.
    """

    document: int
    text: str
    sentences: int
    before: tuple[str, ...]


Change = Callable[[list[Piece]], Sequence["str | Kept"]]
"""From the pieces of all texts, in order, to what takes their places."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A piece that stays as it was, and why, in one word."""

    reason: str


def change_prose(
    texts: Sequence[str],
    *,
    splitter: Splitter,
    change: Change,
    tally: Tally,
    grain: Grain = "sentence",
    most: int | None = None,
) -> list[str]:
    """Rewrite the prose of some texts and leave all else.

    Args:
        texts: as they are; what comes back is normalised as the splitter does it.
        splitter: says what is prose and where sentences end.
        change: rewrites all pieces in one call, so that a model can work in batches.
        tally: is told what became of each piece.
        grain: what a piece is.
        most: sentences a piece at most; None for no limit.
    """
    pieces: list[Piece] = []
    layouts: list[list[str | int]] = []
    for document, text in enumerate(texts):
        layouts.append(_lay_out(splitter.split(text).units, document, pieces, grain, most))
    answers = change(pieces) if pieces else []
    outcome = [
        _settle(answer, piece, splitter=splitter, grain=grain, tally=tally)
        for answer, piece in zip(answers, pieces, strict=True)
    ]
    return [
        "".join(outcome[part] if isinstance(part, int) else part for part in layout)
        for layout in layouts
    ]


def one_line(text: str) -> str:
    """A text with single spaces for all its white space."""
    return " ".join(text.split())


def _lay_out(
    units: Sequence[Unit], document: int, pieces: list[Piece], grain: Grain, most: int | None
) -> list[str | int]:
    """One text as verbatim strings and numbers of pieces; appends its pieces to ``pieces``."""
    layout: list[str | int] = []
    before: list[str] = []
    held: list[Unit] = []
    for unit in units:
        if held and not (unit.carries and _joins(held, grain, most)):
            _close(held, document, pieces, before, layout)
        if unit.carries:
            held.append(unit)
        else:
            layout.append(unit.text + unit.gap)
    if held:
        _close(held, document, pieces, before, layout)
    return layout


def _joins(held: list[Unit], grain: Grain, most: int | None) -> bool:
    """Whether one more sentence belongs to the piece in hand."""
    if most is not None and len(held) >= most:
        return False
    return grain == "document" or (grain == "paragraph" and "\n" not in held[-1].gap)


def _close(
    held: list[Unit],
    document: int,
    pieces: list[Piece],
    before: list[str],
    layout: list[str | int],
) -> None:
    gap = held[-1].gap
    whole = "".join(unit.text + unit.gap for unit in held)
    pieces.append(Piece(document, whole[: len(whole) - len(gap)], len(held), tuple(before)))
    layout += [len(pieces) - 1, gap]
    before += [unit.text for unit in held]
    held.clear()


def _settle(
    answer: str | Kept, piece: Piece, *, splitter: Splitter, grain: Grain, tally: Tally
) -> str:
    """The text that takes a piece's place."""
    if isinstance(answer, Kept):
        tally[answer.reason] += 1
        return piece.text
    # A line break would begin a new paragraph where there was none.
    fresh = splitter.split(answer if grain == "document" else one_line(answer))
    if not fresh.text:
        tally["empty"] += 1
        return piece.text
    # Only a whole document may gain a list or a heading: elsewhere it would break the structure.
    fits = any if grain == "document" else all
    if not fits(unit.carries for unit in fresh.units):
        tally["misfit"] += 1
        return piece.text
    tally["same" if fresh.text == piece.text else "changed"] += 1
    return fresh.text
