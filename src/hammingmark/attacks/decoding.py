"""How a model writes its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hammingmark.errors import InputError


@dataclass(frozen=True, slots=True)
class Decoding:
    """How an answer is written; what is not named here, the model's own settings decide.

    Attributes:
        temperature: None takes the likeliest continuation; a number draws.
        top_k: when drawing, only the k likeliest tokens; 0 for all.
        top_p: when drawing, only the likeliest tokens of this total probability.
        beams: continuations kept side by side.
        returns: answers to hand back for each text, the best first.
        groups: beams in so many groups that avoid each other's tokens.
        diversity: how much a group avoids them, in nats a token.
        repetition_penalty: above 1 discourages tokens that were written before.
        max_length: tokens of an answer, its start token included; None for the model's own.
        growth: at most so many tokens for each token of the longest text in the batch, and a few
            more; None for no such limit. What is drawn may otherwise go on and on.
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
                f"A temperature is above 0, not {self.temperature}; leave it out to take the "
                "likeliest."
            )
        if self.beams < 1 or self.beams % self.groups:
            raise InputError(f"{self.beams} beams do not make {self.groups} groups of a size.")
        if self.temperature is None and not 1 <= self.returns <= self.beams:
            raise InputError(f"{self.beams} beams cannot give {self.returns} answers.")
        if self.groups > 1 and (self.temperature is not None or self.repetition_penalty != 1.0):
            raise InputError("Groups of beams neither draw nor penalise repetition.")

    def options(self, *, read: int, most: int | None) -> dict[str, Any]:
        """The same in the words of the transformers library.

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
        """Tokens of an answer, its start token included; None if nothing limits it."""
        limits = [self.max_length or most]
        if self.growth is not None:
            limits.append(int(self.growth * read) + 16)
        return min((each for each in limits if each is not None), default=None)
