"""Texts and their parts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of a text: a sentence, or text that carries no mark.

    Attributes:
        text: the normalised text of the unit, without white space around it.
        gap: the white space that follows it: nothing, a space, a line break or a blank line.
        carries: whether the unit is prose that can carry the mark. Code, tables, headings and
            bare addresses cannot; generation does not constrain them and detection skips them.
    """

    text: str
    gap: str
    carries: bool


@dataclass(frozen=True, slots=True)
class Sentences:
    """A text split into units; joining the units gives the normalised text."""

    units: tuple[Unit, ...] = field(repr=False)

    def __repr__(self) -> str:
        return f"Sentences({len(self.units)} units, {len(self.carrying)} sentences)"

    @property
    def carrying(self) -> list[str]:
        """The n sentences that can carry the mark, in order."""
        return [unit.text for unit in self.units if unit.carries]

    @property
    def text(self) -> str:
        """The normalised text."""
        return "".join(unit.text + unit.gap for unit in self.units)


@dataclass(frozen=True, slots=True)
class EditHypotheses:
    """Sentences and their edit hypotheses: what they may have been before an edit of the text.

    Attributes:
        texts: N texts, of which the first n are the sentences of the text.
        begins: number of the boundary at which each begins. Sentence i lies between the boundaries
            i and i + 1; boundaries above n lie within a sentence.
        ends: number of the boundary at which each ends.
        sentences: n.
    """

    texts: tuple[str, ...] = field(repr=False)
    begins: tuple[int, ...] = field(repr=False)
    ends: tuple[int, ...] = field(repr=False)
    sentences: int


@dataclass(frozen=True, slots=True)
class Attacked:
    """A text after an attack, and its similarity to the original.

    Attributes:
        text: the attacked text.
        words_changed: words inserted, deleted or replaced, as a share of those of the longer text.
        words_lost: how many words fewer the attacked text has, as a share of those of the original;
            0 if it has as many.
        sentences_touched: share of the original sentences that are no longer there word for word.
        similarity: mean over the original sentences of the cosine to their attacked form; None if
            it was not measured or there was nothing to compare.
        min_similarity: least similarity at which the attacked text counts as the same text.
        kept: whether the similarity is at least that; None if it was not measured.
    """

    text: str
    words_changed: float
    words_lost: float
    sentences_touched: float
    similarity: float | None = None
    min_similarity: float = 0.0
    kept: bool | None = None
