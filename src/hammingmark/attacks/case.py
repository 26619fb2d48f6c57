"""Capitals lost and found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hammingmark.attacks.each import EachShare, pick
from hammingmark.attacks.word_spans import prose_words, replace_words


@dataclass(frozen=True, kw_only=True)
class Case(EachShare):
    """Change the case of words: lower, upper, title, or the first letter flipped.

    Attributes:
        style: what becomes of a word; ``flip`` turns its first letter round.
    """

    name: ClassVar[str] = "case"
    share: float = 1.0
    style: Literal["lower", "upper", "title", "flip"] = "lower"

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        words = prose_words(text)
        chosen = [words[place] for place in pick(len(words), share=self.share, rng=rng)]
        return replace_words(text, {word: self._restyle(word.text) for word in chosen})

    def _restyle(self, word: str) -> str:
        match self.style:
            case "lower":
                return word.lower()
            case "upper":
                return word.upper()
            case "title":
                return word[:1].upper() + word[1:].lower()
            case "flip":
                return word[:1].swapcase() + word[1:]
