"""Decoding parameters of encoder-decoder models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hammingmark.errors import InputError


@dataclass(frozen=True, slots=True)
class Decoding:
    """Decoding parameters; the model's own settings decide the rest.

    Attributes:
        temperature: None decodes greedily; a number samples at this temperature.
        top_k: when sampling, only the k likeliest tokens; 0 for all.
        top_p: when sampling, only the likeliest tokens of this total probability.
        beams: beams of the search.
        returns: answers to return for each text, the best first.
        groups: the number of groups of beams, which avoid each other's tokens.
        diversity: the penalty for another group's token, in nats.
        repetition_penalty: above 1 discourages tokens that occurred before.
        max_length: tokens of an answer, its start token included; None for the model's own limit.
        growth: most tokens per token of the longest text in the batch, plus a few; None for no such
            limit. A sampled answer may otherwise never end.
    """

    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    beams: int = 1
    returns: int = 1
    groups: int = 1
    diversity: float = 0.0
    repetition_penalty: float = 1.0
    max_length: int | None = None
    growth: float | None = None

    def __post_init__(self) -> None:
        if self.temperature is not None and self.temperature <= 0:
            raise InputError(
                f"The temperature must be above 0, not {self.temperature}; omit it for greedy "
                "decoding."
            )
        if self.beams < 1 or self.beams % self.groups:
            raise InputError(
                f"{self.beams} beams cannot be divided into {self.groups} equal groups."
            )
        if self.temperature is None and not 1 <= self.returns <= self.beams:
            raise InputError(f"{self.beams} beams cannot return {self.returns} answers.")
        if self.groups > 1 and (self.temperature is not None or self.repetition_penalty != 1.0):
            raise InputError("Groups of beams support neither sampling nor a repetition penalty.")

    def options(self, *, read: int, most: int | None) -> dict[str, Any]:
        """The parameters as arguments of the transformers library.

        Args:
            read: tokens of the longest text.
            most: the model's own limit, if it has one.
        """
        options: dict[str, Any] = {
            "do_sample": self.temperature is not None,
            "num_beams": self.beams,
            "num_return_sequences": self.returns,
        }
        if self.temperature is not None:
            options |= {
                "temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p
            }  # fmt: skip
        if self.repetition_penalty != 1.0:
            options["repetition_penalty"] = self.repetition_penalty
        limit = self.limit(read=read, most=most)
        if limit is not None:
            options["max_length"] = limit
        return options

    def limit(self, *, read: int, most: int | None) -> int | None:
        """Most tokens of an answer, its start token included; None for no limit."""
        limits = [self.max_length or most]
        if self.growth is not None:
            limits.append(int(self.growth * read) + 16)
        return min((limit for limit in limits if limit is not None), default=None)
