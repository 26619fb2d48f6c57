"""Letters that look like others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hammingmark.attacks.each import EachShare, pick
from hammingmark.attacks.word_spans import prose_words

CYRILLIC = dict(zip("aceijopsxyABCEHIJKMOPSTXY", "асеіјорѕхуАВСЕНІЈКМОРЅТХУ", strict=True))
GREEK = dict(zip("ovABEHIKMNOPTXYZ", "ονΑΒΕΗΙΚΜΝΟΡΤΧΥΖ", strict=True))


@dataclass(frozen=True, kw_only=True)
class Homoglyphs(EachShare):
    """Replace Latin letters by Cyrillic or Greek ones that look the same.

    A reader sees no difference and an encoder reads other letters, so its similarity says
    nothing about the meaning, and any outcome counts as the same text.

    Attributes:
        share: of the letters that have a look-alike.
        alphabet: where the look-alikes come from.
    """

    name: ClassVar[str] = "homoglyphs"
    alphabet: Literal["cyrillic", "greek", "both"] = "cyrillic"
    min_similarity: float = -1.0

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        alike = {
            letter: [table[letter] for table in self._tables() if letter in table]
            for letter in set().union(*self._tables())
        }
        places = [
            place
            for word in prose_words(text)
            for place in range(word.start, word.end)
            if text[place] in alike
        ]
        letters = list(text)
        for index in pick(len(places), share=self.share, rng=rng):
            choices = alike[text[places[index]]]
            letters[places[index]] = choices[int(rng.integers(len(choices)))]
        return "".join(letters)

    def _tables(self) -> list[dict[str, str]]:
        if self.alphabet == "both":
            return [CYRILLIC, GREEK]
        return [CYRILLIC if self.alphabet == "cyrillic" else GREEK]
