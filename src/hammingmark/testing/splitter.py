"""A splitter without a library."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hammingmark.records import Sentences, Unit

_BOUNDARY = re.compile(r"(?<=[.!?]) ")


@dataclass(frozen=True)
class FakeSplitter:
    """Ends a sentence at a full stop, exclamation or question mark before a space.

    Its normalised text has single spaces and nothing else between words. Everything carries.

    Attributes:
        language: has no effect.
        name: what it is called.
    """

    language: str = "en"
    name: str = "fake"

    def split(self, text: str) -> Sentences:
        """Normalise a text and cut it into sentences."""
        normalised = " ".join(text.split())
        pieces = _BOUNDARY.split(normalised) if normalised else []
        gaps = [" "] * (len(pieces) - 1) + [""]
        return Sentences(
            tuple(Unit(piece, gap, carries=True) for piece, gap in zip(pieces, gaps, strict=False))
        )
