"""Truncating a text, quoting it in another, or prefixing its prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hammingmark.attacks.base import ShareAttack, TextAttack, round_at_random
from hammingmark.attacks.sentences import SentenceAttack
from hammingmark.errors import InputError
from hammingmark.records import Unit
from hammingmark.text.words import split_words


@dataclass(frozen=True, kw_only=True)
class Truncate(SentenceAttack):
    """Truncate a text at its end or at its beginning.

    Attributes:
        share: of the sentences, to be removed.
        side: the end to remove them from.
    """

    name: ClassVar[str] = "truncate"
    share: float = 0.5
    side: Literal["front", "back"] = "back"
    min_similarity: float = 0.7

    def change_units(
        self, units: tuple[Unit, ...], places: list[int], *, rng: np.random.Generator
    ) -> Sequence[Unit]:
        """The units of the attacked text."""
        count = round_at_random(self.share * len(places), most=len(places), rng=rng)
        if not count:
            return units
        return units[places[count - 1] + 1 :] if self.side == "front" else units[: places[-count]]


@dataclass(frozen=True, kw_only=True)
class CopyPaste(ShareAttack):
    """Paste a text, as paragraphs of its own, into human text.

    Attributes:
        pool: human sentences, in order; a run of them is taken from a random position on.
        share: the share of the words of the outcome that are those of the text.
    """

    name: ClassVar[str] = "copy-paste"
    pool: tuple[str, ...]
    share: float = 0.5
    min_similarity: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.share:
            raise InputError("share must be above 0.")
        if not any(map(split_words, self.pool)):
            raise InputError("The pool contains no sentence; give at least one.")

    def change(self, text: str, *, rng: np.random.Generator) -> str:
        """Attack one text."""
        missing = len(split_words(text)) * (1.0 - self.share) / self.share
        sentences: list[str] = []
        index = int(rng.integers(len(self.pool)))
        while missing > 0:
            sentence = self.pool[index % len(self.pool)]
            length = len(split_words(sentence))
            if missing < length * rng.random():  # so that the expected share is exact
                break
            sentences.append(sentence)
            missing -= length
            index += 1
        split = int(rng.integers(len(sentences) + 1))
        pieces = [" ".join(sentences[:split]), text, " ".join(sentences[split:])]
        return "\n\n".join(piece for piece in pieces if piece)


@dataclass(frozen=True, kw_only=True)
class LeftPrompt(TextAttack):
    """Put the prompt in front of the text that answers it.

    Attributes:
        prompt: the prompt that the text was written for.
        gap: the separator.
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
