"""Dividing texts into the pieces of prose that a model rewrites, and putting them together again.

Code, tables, headings, list marks and the white space between pieces are not changed. A model's
answer must be prose that fits in the place of its piece; otherwise the piece is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hammingmark.protocols import Splitter
from hammingmark.records import Unit

Grain = Literal["sentence", "paragraph", "document"]
"""The unit rewritten at once: a sentence, a paragraph, or all prose up to the next code or heading.
"""

Tally = Counter[str]
"""Counts of the pieces by outcome: ``changed``, ``same``, or the reason why a piece was kept."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of prose of one text.

    Attributes:
        document: the number of its text.
        text: the prose; sentences with the white space between them.
        sentences: the number of sentences.
        before: the preceding sentences of prose in its text, in order.
    """

    document: int
    text: str
    sentences: int
    before: tuple[str, ...]


Change = Callable[[list[Piece]], Sequence["str | Kept"]]
"""From the pieces of all texts, in order, to their replacements."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The reason, in one word, why a piece is kept as it was."""

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
    """Rewrite the prose of some texts and nothing else.

    Args:
        texts: the texts; outcomes are normalised by the splitter.
        splitter: finds the prose and the ends of sentences.
        change: rewrites all pieces in one call, so that a model can work in batches.
        tally: counts the outcomes of the pieces.
        grain: the unit of a piece.
        most: most sentences of a piece; None for no limit.
    """
    pieces: list[Piece] = []
    layouts: list[list[str | int]] = []
    for document, text in enumerate(texts):
        layouts.append(_lay_out(splitter.split(text).units, document, pieces, grain, most))
    answers = change(pieces) if pieces else []
    outcomes = [
        _settle(answer, piece, splitter=splitter, grain=grain, tally=tally)
        for answer, piece in zip(answers, pieces, strict=True)
    ]
    return [
        "".join(outcomes[part] if isinstance(part, int) else part for part in layout)
        for layout in layouts
    ]


def one_line(text: str) -> str:
    """A text with a single space for each run of white space."""
    return " ".join(text.split())


def _lay_out(
    units: Sequence[Unit], document: int, pieces: list[Piece], grain: Grain, most: int | None
) -> list[str | int]:
    """One text as verbatim strings and numbers of pieces; appends its pieces to ``pieces``."""
    layout: list[str | int] = []
    before: list[str] = []
    current: list[Unit] = []
    for unit in units:
        if current and not (unit.carries and _joins(current, grain, most)):
            _close(current, document, pieces, before, layout)
        if unit.carries:
            current.append(unit)
        else:
            layout.append(unit.text + unit.gap)
    if current:
        _close(current, document, pieces, before, layout)
    return layout


def _joins(current: list[Unit], grain: Grain, most: int | None) -> bool:
    """Whether the next sentence belongs to the current piece."""
    if most is not None and len(current) >= most:
        return False
    return grain == "document" or (grain == "paragraph" and "\n" not in current[-1].gap)


def _close(
    current: list[Unit],
    document: int,
    pieces: list[Piece],
    before: list[str],
    layout: list[str | int],
) -> None:
    gap = current[-1].gap
    whole = "".join(unit.text + unit.gap for unit in current)
    pieces.append(Piece(document, whole[: len(whole) - len(gap)], len(current), tuple(before)))
    layout += [len(pieces) - 1, gap]
    before += [unit.text for unit in current]
    current.clear()


def _settle(
    answer: str | Kept, piece: Piece, *, splitter: Splitter, grain: Grain, tally: Tally
) -> str:
    """The text that replaces a piece."""
    if isinstance(answer, Kept):
        tally[answer.reason] += 1
        return piece.text
    # A line break in the answer would begin a new paragraph.
    sentences = splitter.split(answer if grain == "document" else one_line(answer))
    if not sentences.text:
        tally["empty"] += 1
        return piece.text
    # Only a whole document may gain a list or a heading; elsewhere that would break the structure.
    fits = any if grain == "document" else all
    if not fits(unit.carries for unit in sentences.units):
        tally["misfit"] += 1
        return piece.text
    tally["same" if sentences.text == piece.text else "changed"] += 1
    return sentences.text
