"""Generation settings: limits, budget, fallback and sampling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from hammingmark.errors import InputError
from hammingmark.records import Prompt, Sampling

TEXT_SAMPLING = Sampling()
"""Sampling for continuing a text, as in the paper."""

BUDGET = 16
"""B of the paper, candidates per sentence."""

MOST_TOKENS = 1_000_000
"""More than the context of any model."""

SENTENCE_TOKENS = 22
"""Mean length of a sentence in tokens (docs/generation.md)."""

CHAT_SAMPLING = Sampling(temperature=0.8)
"""Sampling for chats: answers read better at the same cost and evidence (docs/generation.md)."""


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """Settings for writing one text.

    Attributes:
        max_tokens: maximum number of tokens in the text.
        max_sentences: maximum number of sentences; None for no limit.
        budget: B, the maximum number of candidates per sentence; None for the number in the
            method's paper, or 16 if it gives none.
        fallback: which candidate to keep when the budget is spent: the ``best`` match, or the
            ``last`` candidate as in the paper. A method that takes the best of a pool keeps the
            best.
        first: whether the first sentence of a continued text is compared with the last sentence of
            the ``prompt``, or ``free``. Methods that judge the first sentence of a text ignore
            this.
        answer_start: whether the first sentence of an answer in a chat is ``free``, so that the
            rule never chooses what is answered, or ``judged`` by methods that judge the first
            sentence of a text.
        keeps_insisted: whether a refused sentence is kept when it comes again
            (`generation.insistence`).
        most_repeated: a candidate is rejected if a larger share of its four-word sequences occurs
            earlier in the text, or in the prompt that it continues; 1 never rejects.
        stage_tokens: tokens per stage, where the method and the model support stages. A sentence
            is then drawn stage by stage, and its prefix is judged after each. 0 draws complete
            sentences.
        stop: stop strings; the text ends before the first one. While a text is streamed, a step
            that ends with the beginning of a stop string is held back until the following text
            decides whether the string is complete.
        in_parts: whether a text without candidates, unmarked or with marked tokens, is drawn about
            one sentence at a time so that it can be streamed, if the model supports it.
        call_tokens: maximum number of tokens of a text that ends with calls of tools; None for the
            model's own limit.
        max_sentence_tokens: a candidate that exceeds this without ending is rejected.
        min_sentence_tokens: where fewer tokens are left for the text, they are drawn once and kept
            unjudged: so short a fragment is no sentence, and not worth a budget. 1 judges it.
        text_sampling: sampling for continuing a text.
        chat_sampling: sampling for answering a chat.
    """

    max_tokens: int = 200
    max_sentences: int | None = None
    budget: int | None = None
    fallback: Literal["best", "last"] = "best"
    first: Literal["prompt", "free"] = "prompt"
    answer_start: Literal["free", "judged"] = "free"
    keeps_insisted: bool = True
    most_repeated: float = 0.3
    stage_tokens: int = 3
    stop: tuple[str, ...] = ()
    in_parts: bool = False
    call_tokens: int | None = None
    max_sentence_tokens: int = 128
    min_sentence_tokens: int = 4
    text_sampling: Sampling = TEXT_SAMPLING
    chat_sampling: Sampling = CHAT_SAMPLING

    def __post_init__(self) -> None:
        for name in ("max_tokens", "budget", "max_sentence_tokens", "min_sentence_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, not {value}.")
        if self.max_tokens > MOST_TOKENS:
            raise InputError(f"max_tokens must be at most {MOST_TOKENS:,}, not {self.max_tokens}.")
        if self.stage_tokens < 0:
            raise InputError(f"stage_tokens must be at least 0, not {self.stage_tokens}.")
        if self.max_sentences is not None and self.max_sentences < 1:
            raise InputError(f"max_sentences must be at least 1, not {self.max_sentences}.")
        if "" in self.stop:
            raise InputError("A stop string is empty; leave it out.")
        if not 0.0 <= self.most_repeated <= 1.0:
            raise InputError(f"most_repeated must lie between 0 and 1, not {self.most_repeated}.")

    def sampling(self, prompt: Prompt) -> Sampling:
        """The sampling for a prompt: that of chats or of continued texts."""
        return self.chat_sampling if prompt.messages else self.text_sampling

    def with_sampling(self, sampling: Sampling) -> GenerationConfig:
        """The same settings with one sampling for texts and chats."""
        return replace(self, text_sampling=sampling, chat_sampling=sampling)


PAPER = GenerationConfig(
    fallback="last",
    keeps_insisted=False,
    most_repeated=1.0,
    stage_tokens=0,
    min_sentence_tokens=1,
    chat_sampling=TEXT_SAMPLING,
)
"""The paper's settings: B = 16 complete candidates, the last as fallback, repetition allowed."""
