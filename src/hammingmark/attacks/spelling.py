"""Typing errors, look-alike letters, and changes of case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hammingmark.attacks.base import ShareAttack, pick
from hammingmark.attacks.word_spans import match_case, prose_words, replace_words

CYRILLIC = dict(zip("aceijopsxyABCEHIJKMOPSTXY", "асеіјорѕхуАВСЕНІЈКМОРЅТХУ", strict=True))
GREEK = dict(zip("ovABEHIKMNOPTXYZ", "ονΑΒΕΗΙΚΜΝΟΡΤΧΥΖ", strict=True))
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _neighbours() -> dict[str, str]:
    """For each letter its neighbours on the keyboard, with rows offset by half a key."""
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
class Typos(ShareAttack):
    """Make typing errors, one per chosen word: a near key, a letter doubled, missed or swapped.

    Words of fewer than two letters are not changed. Letters that are not on a QWERTY keyboard are
    only doubled, missed or swapped.
    """

    name: ClassVar[str] = "typos"
    min_similarity: float = 0.7

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        words = prose_words(text)
        eligible = [word for word in words if sum(map(str.isalpha, word.text)) >= 2]
        chosen = pick(len(words), share=self.share, rng=rng, among=len(eligible))
        return replace_words(
            text, {eligible[place]: misspell(eligible[place].text, rng) for place in chosen}
        )


def misspell(word: str, rng: np.random.Generator) -> str:
    """The word with one typing error; never the word itself."""
    for number in rng.permutation(len(_ERRORS)):
        misspelt = _ERRORS[int(number)](word, rng)
        if misspelt != word:
            return misspelt
    return word  # unreachable for a word with letters: doubling always changes it


def _letters(word: str) -> list[int]:
    return [place for place, letter in enumerate(word) if letter.isalpha()]


def _press_near_key(word: str, rng: np.random.Generator) -> str:
    places = [place for place in _letters(word) if word[place].lower() in NEIGHBOURS]
    if not places:
        return word
    place = int(rng.choice(places))
    near = NEIGHBOURS[word[place].lower()]
    letter = match_case(near[int(rng.integers(len(near)))], word[place])
    return word[:place] + letter + word[place + 1 :]


def _double_letter(word: str, rng: np.random.Generator) -> str:
    place = int(rng.choice(_letters(word)))
    return word[: place + 1] + word[place].lower() + word[place + 1 :]


def _drop_letter(word: str, rng: np.random.Generator) -> str:
    place = int(rng.choice(_letters(word)))
    return word[:place] + word[place + 1 :]


def _swap_letters(word: str, rng: np.random.Generator) -> str:
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


_ERRORS: tuple[Callable[[str, np.random.Generator], str], ...] = (
    _press_near_key,
    _double_letter,
    _drop_letter,
    _swap_letters,
)


@dataclass(frozen=True, kw_only=True)
class Homoglyphs(ShareAttack):
    """Replace Latin letters by Cyrillic or Greek ones that look the same.

    Splitters fold them (`text.folding`), so the sentences remain what they were.

    Attributes:
        share: of the letters that have a look-alike.
        alphabet: the alphabet of the look-alikes.
    """

    name: ClassVar[str] = "homoglyphs"
    alphabet: Literal["cyrillic", "greek", "both"] = "cyrillic"

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        look_alikes = {
            letter: [table[letter] for table in self._tables() if letter in table]
            for letter in set().union(*self._tables())
        }
        places = [
            place
            for word in prose_words(text)
            for place in range(word.start, word.end)
            if text[place] in look_alikes
        ]
        letters = list(text)
        for index in pick(len(places), share=self.share, rng=rng):
            choices = look_alikes[text[places[index]]]
            letters[places[index]] = choices[int(rng.integers(len(choices)))]
        return "".join(letters)

    def _tables(self) -> list[dict[str, str]]:
        if self.alphabet == "both":
            return [CYRILLIC, GREEK]
        return [CYRILLIC if self.alphabet == "cyrillic" else GREEK]


@dataclass(frozen=True, kw_only=True)
class Case(ShareAttack):
    """Change the case of words: lower, upper, title, or the first letter flipped.

    Attributes:
        style: the new case of a word; ``flip`` changes the case of its first letter.
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
