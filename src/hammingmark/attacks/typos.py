"""Slips of the finger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hammingmark.attacks.each import EachShare, pick
from hammingmark.attacks.word_spans import like, prose_words, replace_words

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _neighbours() -> dict[str, str]:
    """For each letter those beside, above and below it, with half a key between the rows."""
    places = {
        letter: (column + 0.5 * number, number)
        for number, row in enumerate(_ROWS)
        for column, letter in enumerate(row)
    }
    return {
        letter: "".join(
            other
            for other, (u, v) in places.items()
            if other != letter and abs(u - x) <= 1 and abs(v - y) <= 1
        )
        for letter, (x, y) in places.items()
    }


NEIGHBOURS = _neighbours()


@dataclass(frozen=True, kw_only=True)
class Typos(EachShare):
    """Make typing errors, one per chosen word: a near key, a letter doubled, missed or swapped.

    Words of fewer than two letters have none. Letters without a place on a QWERTY keyboard are
    only doubled, missed or transposed.
    """

    name: ClassVar[str] = "typos"
    min_similarity: float = 0.7

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        words = prose_words(text)
        open_to = [word for word in words if sum(map(str.isalpha, word.text)) >= 2]
        chosen = pick(len(words), share=self.share, rng=rng, among=len(open_to))
        return replace_words(
            text, {open_to[place]: slip(open_to[place].text, rng) for place in chosen}
        )


def slip(word: str, rng: np.random.Generator) -> str:
    """The word with one slip; never the word itself."""
    for number in rng.permutation(len(_SLIPS)):
        slipped = _SLIPS[int(number)](word, rng)
        if slipped != word:
            return slipped
    return word  # unreachable for a word with letters: doubling always changes it


def _letters(word: str) -> list[int]:
    return [place for place, letter in enumerate(word) if letter.isalpha()]


def _wrong_key(word: str, rng: np.random.Generator) -> str:
    places = [place for place in _letters(word) if word[place].lower() in NEIGHBOURS]
    if not places:
        return word
    place = int(rng.choice(places))
    near = NEIGHBOURS[word[place].lower()]
    letter = like(near[int(rng.integers(len(near)))], word[place])
    return word[:place] + letter + word[place + 1 :]


def _doubled(word: str, rng: np.random.Generator) -> str:
    place = int(rng.choice(_letters(word)))
    return word[: place + 1] + word[place].lower() + word[place + 1 :]


def _missed(word: str, rng: np.random.Generator) -> str:
    place = int(rng.choice(_letters(word)))
    return word[:place] + word[place + 1 :]


def _transposed(word: str, rng: np.random.Generator) -> str:
    places = [
        place
        for place in range(len(word) - 1)
        if word[place : place + 2].isalpha() and word[place] != word[place + 1]
    ]
    if not places:
        return word
    place = int(rng.choice(places))
    first, second = word[place], word[place + 1]
    return word[:place] + second + first + word[place + 2 :]


_SLIPS: tuple[Callable[[str, np.random.Generator], str], ...] = (
    _wrong_key,
    _doubled,
    _missed,
    _transposed,
)
