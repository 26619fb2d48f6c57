"""The parameters of SynthID-Text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from hammingmark.errors import InputError
from hammingmark.keys.config import TokenConfig
from hammingmark.watermarks.synthid.g_values import Hashing

MAX_DEPTH = 64
"""The authors find no gain beyond a depth of 30."""


@dataclass(frozen=True, kw_only=True)
class SynthIDConfig(TokenConfig):
    """The tournament of tokens, and the hash behind their g-values.

    Attributes:
        ngram_len: n, the number of tokens that decide a g-value, including the next one.
        depth: the number of rounds of the tournament.
        hashing: how tokens give g-values: ``mixed`` by a hash against which no text can be written
            without the key, ``iterated`` as in version 0.2.1 of the authors' code, ``table`` as in
            version 0.1 and in transformers.
        context_history_size: a context that is repeated within this many contexts is not marked
            again.
        mode: ``non-distortionary`` keeps the model's distribution on average over keys;
            ``distortionary`` also marks repeated contexts, and may have more leaves.
        num_leaves: the number of tokens in a match.
        candidates: the number of likeliest tokens in the tournament; other tokens keep their
            probabilities.
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
            raise InputError(f"ngram_len must lie between 2 and 32, not {self.ngram_len}.")
        if not 1 <= self.depth <= MAX_DEPTH:
            raise InputError(f"The depth must lie between 1 and {MAX_DEPTH}, not {self.depth}.")
        if not 0 <= self.context_history_size <= 1 << 16:
            raise InputError(
                "context_history_size must lie between 0 and 65,536, not "
                f"{self.context_history_size:,}."
            )
        if not 2 <= self.num_leaves <= 16:
            raise InputError(f"num_leaves must lie between 2 and 16, not {self.num_leaves}.")
        if self.num_leaves > 2 and self.mode != "distortionary":
            raise InputError(
                f"num_leaves={self.num_leaves} changes the model's distribution. Set "
                "mode=distortionary, or num_leaves=2."
            )
        if self.candidates < 2:
            raise InputError(f"candidates must be at least 2, not {self.candidates}.")

    @property
    def context(self) -> int:
        """The number of preceding tokens that decide a token's g-values."""
        return self.ngram_len - 1

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        return (
            f"a tournament of depth {self.depth} after {self.context} tokens, "
            f"{self.num_leaves} to a match, {self.mode}, hashing {self.hashing}"
        )
