"""How a text is written: limits and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hammingmark.errors import InputError
from hammingmark.records import Prompt, Sampling


@dataclass(frozen=True, slots=True)
class Settings:
    """How a text is written.

    Attributes:
        max_tokens: tokens to emit at most.
        max_sentences: sentences to emit at most; None for any number.
        budget: B, candidates per sentence at most.
        fallback: what to keep when the budget is spent: the ``best`` match, or the ``last``
            candidate as in the paper.
        first: whether the first sentence of a continued text is centred on the ``prompt``'s last
            sentence or ``free``; in a chat it is always free.
        most_repeated: a candidate is refused if a larger share of its four-word runs has been
            said before; 1 never refuses.
        max_sentence_tokens: a candidate that is longer without an end is refused.
        sampling: how the model draws; None for what suits the prompts (`suited`).
    """

    max_tokens: int = 200
    max_sentences: int | None = None
    budget: int = 16
    fallback: Literal["best", "last"] = "best"
    first: Literal["prompt", "free"] = "prompt"
    most_repeated: float = 0.3
    max_sentence_tokens: int = 128
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "budget", "max_sentence_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.max_sentences is not None and self.max_sentences < 1:
            raise InputError(f"max_sentences must be at least 1, not {self.max_sentences}.")
        if not 0.0 <= self.most_repeated <= 1.0:
            raise InputError(f"most_repeated is a share, not {self.most_repeated}.")


TEXT_SAMPLING = Sampling()
"""For texts that are continued, as in the paper."""

CHAT_SAMPLING = Sampling(temperature=0.8)
"""For chats: at the same cost and evidence answers read better (docs/generation.md)."""


def suited(prompts: Sequence[Prompt]) -> Sampling:
    """How to draw where nobody says: as for chats if all prompts are chats."""
    return CHAT_SAMPLING if all(prompt.messages for prompt in prompts) else TEXT_SAMPLING


PAPER = Settings(fallback="last", most_repeated=1.0, sampling=TEXT_SAMPLING)
"""Exactly the paper's settings: B = 16, the last candidate on failure, no limit on repetition."""
