"""Generation settings: how a text is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from hammingmark.errors import InputError
from hammingmark.records import Prompt, Sampling

TEXT_SAMPLING = Sampling()
"""For texts that are continued, as in the paper."""

BUDGET = 16
"""B of the paper."""

SENTENCE_TOKENS = 22
"""Of a sentence, on average (docs/generation.md)."""

CHAT_SAMPLING = Sampling(temperature=0.8)
"""For chats: at the same cost and evidence answers read better (docs/generation.md)."""


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """How a text is written.

    Attributes:
        max_tokens: tokens to emit at most.
        max_sentences: sentences to emit at most; None for any number.
        budget: B, candidates per sentence at most; None for as many as the method's paper allows,
            16 where it does not say.
        fallback: what to keep when the budget is spent: the ``best`` match, or the ``last``
            candidate as in the paper. A method that takes the best of a pool keeps the best.
        first: whether the first sentence of a continued text is compared with the ``prompt``'s
            last sentence or ``free``, under a method that does not judge beginnings as such; in a
            chat it is always free then.
        most_repeated: a candidate is refused if a larger share of its four-word runs has been
            said before; 1 never refuses.
        stage_tokens: a sentence is drawn so many tokens at a time, and its beginning judged, where
            method and model allow it; 0 draws every candidate whole.
        stop: the text ends before the first of these strings. Where it is streamed, a step that
            ends with the beginning of one comes once what follows shows that it is none.
        in_parts: whether a text without candidates, unmarked or with marked tokens, is drawn about
            a sentence at a time, so that it can be told as it grows; where the model allows it.
        max_sentence_tokens: a candidate that is longer without an end is refused.
        text_sampling: how the model draws where it continues a text.
        chat_sampling: how it draws where it answers a chat.
    """

    max_tokens: int = 200
    max_sentences: int | None = None
    budget: int | None = None
    fallback: Literal["best", "last"] = "best"
    first: Literal["prompt", "free"] = "prompt"
    most_repeated: float = 0.3
    stage_tokens: int = 3
    stop: tuple[str, ...] = ()
    in_parts: bool = False
    max_sentence_tokens: int = 128
    text_sampling: Sampling = TEXT_SAMPLING
    chat_sampling: Sampling = CHAT_SAMPLING

    def __post_init__(self) -> None:
        for name in ("max_tokens", "budget", "max_sentence_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, not {value}.")
        if self.stage_tokens < 0:
            raise InputError(f"stage_tokens must be at least 0, not {self.stage_tokens}.")
        if self.max_sentences is not None and self.max_sentences < 1:
            raise InputError(f"max_sentences must be at least 1, not {self.max_sentences}.")
        if "" in self.stop:
            raise InputError("A string to stop at is empty; leave it out.")
        if not 0.0 <= self.most_repeated <= 1.0:
            raise InputError(f"most_repeated is a share, not {self.most_repeated}.")

    def sampling(self, prompt: Prompt) -> Sampling:
        """How the model draws for a prompt."""
        return self.chat_sampling if prompt.messages else self.text_sampling

    def with_sampling(self, sampling: Sampling) -> GenerationConfig:
        """The same, drawing in one way for texts and chats."""
        return replace(self, text_sampling=sampling, chat_sampling=sampling)


PAPER = GenerationConfig(
    fallback="last", most_repeated=1.0, stage_tokens=0, chat_sampling=TEXT_SAMPLING
)
"""Exactly the paper's config: B = 16 whole candidates, the last on failure, repetition allowed."""
