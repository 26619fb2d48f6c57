"""The rule of SynthID-Text: its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from hammingmark.errors import InputError
from hammingmark.keys.config import TokenConfig
from hammingmark.watermarks.synthid.g_values import Hashing

DEEPEST = 64
"""Depths at most; the authors find no gain beyond 30."""


@dataclass(frozen=True, kw_only=True)
class SynthIDConfig(TokenConfig):
    """How tokens meet in a tournament.

    Attributes:
        ngram_len: tokens that decide a g-value, the next one included.
        depth: of the tournament.
        hashing: what makes g-values of tokens: ``mixed`` by a hash that a text cannot be written
            for, ``iterated`` as in version 0.2.1 of the authors' code, ``table`` as in version 0.1
            and in transformers.
        context_history_size: a context that is among so many before it is left unmarked.
        mode: ``non-distortionary`` keeps the model's distribution on average over keys;
            ``distortionary`` marks contexts that come again as well, and may have more leaves.
        num_leaves: how many tokens meet in a match.
        candidates: how many of the likeliest tokens take part; others keep their probabilities.
    """

    method: ClassVar[str] = "synthid"

    ngram_len: int = 5
    depth: int = 30
    hashing: Hashing = "mixed"
    context_history_size: int = 1024
    mode: Literal["non-distortionary", "distortionary"] = "non-distortionary"
    num_leaves: int = 2
    candidates: int = 1024

    def __post_init__(self) -> None:
        if not 2 <= self.ngram_len <= 32:
            raise InputError(f"ngram_len lies between 2 and 32, not at {self.ngram_len}.")
        if not 1 <= self.depth <= DEEPEST:
            raise InputError(f"The depth lies between 1 and {DEEPEST}, not at {self.depth}.")
        if not 0 <= self.context_history_size <= 1 << 16:
            raise InputError(
                f"The history has between 0 and 65,536 contexts, not {self.context_history_size:,}."
            )
        if not 2 <= self.num_leaves <= 16:
            raise InputError(f"Between 2 and 16 tokens meet in a match, not {self.num_leaves}.")
        if self.num_leaves > 2 and self.mode != "distortionary":
            raise InputError(
                f"Matches of {self.num_leaves} change the model's distribution: set "
                "mode=distortionary, or num_leaves=2."
            )
        if self.candidates < 2:
            raise InputError(f"At least 2 candidates take part, not {self.candidates}.")

    @property
    def context(self) -> int:
        """How many tokens before the next one decide its g-values."""
        return self.ngram_len - 1

    @property
    def summary(self) -> str:
        """The rule in a few words."""
        return (
            f"a tournament of depth {self.depth} after {self.context} tokens, "
            f"{self.num_leaves} to a match, {self.mode}, hashing {self.hashing}"
        )
