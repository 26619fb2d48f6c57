"""A text that is drawn in parts, which may end anywhere: in a sentence, or in a word."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from hammingmark.generation.text import AcceptedText, Addition, may_end, tokens_of
from hammingmark.records import Candidate, Unit


class TextInParts(AcceptedText):
    """The part of a text that has been drawn, exactly as the model wrote it.

    Where its sentences end is known when it is over, or where somebody asks for no more of them.
    """

    @property
    def sentences(self) -> tuple[str, ...]:
        """Those that can carry a mark, the last as far as it goes."""
        return self.sentences_of(self.written)

    def enough_sentences(self, most: int | None) -> Callable[[str], bool]:
        """A function that says whether the text has so many sentences with one more part."""

        def complete(part: str) -> bool:
            if most is None or not may_end(self.written[-_BEFORE:] + part):
                return False
            units = self._split(self.written + part)
            return sum(unit.carries for unit in units[:-1]) >= most

        return complete

    def read_all(self, candidate: Candidate, *, most: int | None = None) -> Addition:
        """The part that a candidate is, white space behind it included unless the text ends.

        Its units are not told, but for one that ends the text with its last sentence: then they
        are those of the whole text.
        """
        part, tokens = candidate.text, len(candidate.pieces)
        if most is not None and self.enough_sentences(most)(part):
            kept = self._first(part, most)
            whole = self._raw(self.written + part, kept)
            # What was written before stays, also where the sentence is found to end in it.
            raw = part.rstrip() if whole is None else whole[len(self.written) :]
            return Addition(raw, kept, "", tokens_of(candidate, len(raw)), ends=False)
        over = candidate.finished or candidate.cut
        return Addition(
            part.rstrip() if over else part, (), "", tokens, candidate.finished, candidate.cut
        )

    def with_addition(self, addition: Addition) -> TextInParts:
        """The text with one more part."""
        page = copy(self)
        page._write(addition.raw)
        return page

    def _first(self, part: str, most: int) -> tuple[Unit, ...]:
        """The units of the whole text up to its last sentence."""
        units = self._split(self.written + part)
        places = [place for place, unit in enumerate(units) if unit.carries]
        return units[: places[most - 1] + 1]


_BEFORE = 40  # characters among which a sentence may have ended before a part begins
