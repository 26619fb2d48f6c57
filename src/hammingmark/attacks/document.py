"""A text cut short, quoted inside another, or left behind its prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hammingmark.attacks.each import EachShare, EachText, how_many
from hammingmark.attacks.sentences import SentenceAttack
from hammingmark.errors import InputError
from hammingmark.records import Unit
from hammingmark.text.words import split_words


@dataclass(frozen=True, kw_only=True)
class Truncate(SentenceAttack):
    """Truncate a text at its end or at its beginning.

    Attributes:
        share: of the sentences, to be cut off.
        side: where.
    """

    name: ClassVar[str] = "truncate"
    share: float = 0.5
    side: Literal["front", "back"] = "back"
    min_similarity: float = 0.7

    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> Sequence[Unit]:
        """The units of the attacked text."""
        count = how_many(self.share * len(places), most=len(places), rng=rng)
        if not count:
            return units
        return units[places[count - 1] + 1 :] if self.side == "front" else units[: places[-count]]


@dataclass(frozen=True, kw_only=True)
class CopyPaste(EachShare):
    """Paste a text, as paragraphs of its own, into text written by people.

    Attributes:
        pool: sentences that people wrote, in order; a run of them is taken, beginning anywhere.
        share: of the words of the outcome, to be those of the text.
    """

    name: ClassVar[str] = "copy-paste"
    pool: tuple[str, ...]
    share: float = 0.5
    min_similarity: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.share:
            raise InputError("share must be above 0: a text cannot be a share 0 of another.")
        if not any(map(split_words, self.pool)):
            raise InputError("The pool holds no sentence; give at least one.")

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        wanted = len(split_words(text)) * (1.0 - self.share) / self.share
        around: list[str] = []
        place = int(rng.integers(len(self.pool)))
        while wanted > 0:
            sentence = self.pool[place % len(self.pool)]
            length = len(split_words(sentence))
            if wanted < length * rng.random():  # so that the share is right on average
                break
            around.append(sentence)
            wanted -= length
            place += 1
        before = int(rng.integers(len(around) + 1))
        pieces = [" ".join(around[:before]), text, " ".join(around[before:])]
        return "\n\n".join(piece for piece in pieces if piece)


@dataclass(frozen=True, kw_only=True)
class LeftPrompt(EachText):
    """Leave the prompt in front of the text it was written for.

    Attributes:
        prompt: what the model had been asked.
        gap: what stands between the two.
        min_similarity: least similarity at which the outcome counts as the same text.
    """

    name: ClassVar[str] = "prompt"
    prompt: str
    gap: str = " "
    min_similarity: float = 0.9

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise InputError("The prompt is empty; give the one that the text was written for.")

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        return f"{self.prompt}{self.gap}{text}"
