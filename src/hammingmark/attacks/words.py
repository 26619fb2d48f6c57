"""Deleting, inserting and swapping words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hammingmark.attacks.base import ShareAttack, pick, round_at_random
from hammingmark.attacks.word_spans import Word, prose_words, replace_words


@dataclass(frozen=True, kw_only=True)
class DeleteWords(ShareAttack):
    """Delete words, each with the space before it."""

    name: ClassVar[str] = "delete-words"

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        words = prose_words(text)
        deleted = [words[place] for place in pick(len(words), share=self.share, rng=rng)]
        return replace_words(text, {_with_space(text, word): "" for word in deleted})


@dataclass(frozen=True, kw_only=True)
class InsertWords(ShareAttack):
    """Insert words, each after a word of the text.

    Attributes:
        share: the number of words to insert, as a share of the text's words.
        words: the words to choose from; by default those of the text.
    """

    name: ClassVar[str] = "insert-words"
    words: tuple[str, ...] = ()

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        words = prose_words(text)
        choices = self.words or [word.text for word in words]
        chosen = [words[place] for place in pick(len(words), share=self.share, rng=rng)]
        drawn = [choices[index] for index in rng.integers(len(choices), size=len(chosen))]
        return replace_words(
            text,
            {
                word: f"{word.text}{_separator(text, word)}{new}"
                for word, new in zip(chosen, drawn, strict=True)
            },
        )


@dataclass(frozen=True, kw_only=True)
class SwapWords(ShareAttack):
    """Swap neighbouring words that are separated by a space only.

    Attributes:
        share: of the words, to be moved; each swap moves two.
    """

    name: ClassVar[str] = "swap-words"

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        words = prose_words(text)
        swaps = round_at_random(self.share * len(words) / 2, most=len(words) // 2, rng=rng)
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
    """The word with the space before it, or otherwise the one after it."""
    if word.start and text[word.start - 1] == " ":
        return Word(" " + word.text, word.start - 1, word.end)
    if text[word.end : word.end + 1] == " ":
        return Word(word.text + " ", word.start, word.end + 1)
    return word


def _separator(text: str, word: Word) -> str:
    """The separator before a new neighbouring word; empty in texts without spaces."""
    return "" if len(word.text) == 1 and ord(word.text) >= 0x2E80 else " "
