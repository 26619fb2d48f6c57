"""Words taken out, put in, or swapped with their neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hammingmark.attacks.each import EachShare, how_many, pick
from hammingmark.attacks.word_spans import Word, prose_words, replace_words


@dataclass(frozen=True, kw_only=True)
class DeleteWords(EachShare):
    """Delete words, each with the space before it."""

    name: ClassVar[str] = "delete-words"

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        words = prose_words(text)
        gone = [words[place] for place in pick(len(words), share=self.share, rng=rng)]
        return replace_words(text, {_with_space(text, word): "" for word in gone})


@dataclass(frozen=True, kw_only=True)
class InsertWords(EachShare):
    """Insert words, each after a word of the text.

    Attributes:
        share: words to put in, as a share of those that are there.
        words: what to choose from; the text's own words if there is none.
    """

    name: ClassVar[str] = "insert-words"
    words: tuple[str, ...] = ()

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        there = prose_words(text)
        offered = self.words or [word.text for word in there]
        behind = [there[place] for place in pick(len(there), share=self.share, rng=rng)]
        drawn = [offered[index] for index in rng.integers(len(offered), size=len(behind))]
        return replace_words(
            text,
            {
                word: f"{word.text}{_space_at(text, word)}{new}"
                for word, new in zip(behind, drawn, strict=True)
            },
        )


@dataclass(frozen=True, kw_only=True)
class SwapWords(EachShare):
    """Swap neighbouring words that are separated by a space only.

    Attributes:
        share: of the words, to be moved; each swap moves two.
    """

    name: ClassVar[str] = "swap-words"

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        words = prose_words(text)
        swaps = how_many(self.share * len(words) / 2, most=len(words) // 2, rng=rng)
        changed: dict[Word, str] = {}
        for place in rng.permutation(max(0, len(words) - 1)):
            left, right = words[place], words[place + 1]
            if len(changed) == 2 * swaps:
                break
            blank = text[left.end : right.start].strip(" ") == ""
            if blank and left not in changed and right not in changed:
                changed |= {left: right.text, right: left.text}
        return replace_words(text, changed)


def _with_space(text: str, word: Word) -> Word:
    """The word with the space before it, or else the one behind it."""
    if word.start and text[word.start - 1] == " ":
        return Word(" " + word.text, word.start - 1, word.end)
    if text[word.end : word.end + 1] == " ":
        return Word(word.text + " ", word.start, word.end + 1)
    return word


def _space_at(text: str, word: Word) -> str:
    """What divides a word from a new neighbour: nothing where the text has no spaces."""
    return "" if len(word.text) == 1 and ord(word.text) >= 0x2E80 else " "
