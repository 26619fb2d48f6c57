"""The task of drawing one sentence: what all candidate policies share.

These are requests, stop strings, spacing, screening and the watermark's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import Failure
from hammingmark.generation.config import BUDGET, GenerationConfig
from hammingmark.generation.stop_strings import cut_at, ending_at
from hammingmark.generation.text import AcceptedText, Addition
from hammingmark.protocols import LogitsProcessor, SentenceWatermark
from hammingmark.records import Candidate, Reasoning, ReasoningPart, Request, ToolCalls

Path = tuple[int, ...]
"""Identifies a draw of a sentence: its number, or one number per stage."""

Result = Literal["prefix", "misfit", "repeated", "rejected", "accepted", "kept", "insisted"]
"""The outcome of a draw.

``prefix`` is an unfinished sentence. ``kept`` is kept without judging, ``insisted`` although the
rule refuses it, because the model insists on it.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a sentence in its text.

    Attributes:
        step: the number of steps before it.
        sentences: the number of sentences before it.
        tokens: the number of tokens before it.
    """

    step: int = 0
    sentences: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Draw:
    """A finished candidate as read in its text, and its outcome.

    Attributes:
        path: identifies the draw.
        tokens: the number of tokens drawn.
        addition: what it adds to the text; None if it does not fit or is not complete.
        is_empty: whether the model wrote nothing.
        failure: why the model could not continue, if that ends the text.
        overlap: the number of characters before it that begin a stop string; the text ends before
            them.
        calls: the calls of tools with which it ends the text.
        reasoning: what the model thought before it.
        truncated: whether the model reached the limit of tokens.
        pending: the text to embed before it can be judged; empty once that is done.
        is_repeated: whether it repeats too much of the text.
        embedding: of its sentence, or of the context after it, (d,).
        accepted: whether it satisfies the rule; None if it was not judged.
        score: its score under the rule.
        result: the outcome; None until the policy has decided on it.
    """

    path: Path
    tokens: int
    addition: Addition | None
    is_empty: bool = False
    failure: Failure | None = None
    overlap: int = 0
    calls: ToolCalls | None = None
    reasoning: Reasoning | None = None
    truncated: bool = False
    pending: str = ""
    is_repeated: bool = False
    embedding: NDArray[np.float32] | None = None
    accepted: bool | None = None
    score: float | None = None
    result: Result | None = None


@dataclass(frozen=True)
class SentenceTask:
    """One sentence to draw.

    Attributes:
        text: the text before it.
        previous: embedding of the preceding sentence, (d,), or None at the beginning of a text.
            Where ``logits`` depend on a context, the embedding of that context.
        place: its position in the text.
        logits: modifies the logits of each step.
        config: generation settings.
        on_reasoning: called with each part of the reasoning before an answer.
    """

    text: AcceptedText
    previous: NDArray[np.float32] | None
    place: Place
    logits: LogitsProcessor | None
    config: GenerationConfig
    on_reasoning: Callable[[ReasoningPart], None] | None = None

    @property
    def begins_answer(self) -> bool:
        """Whether it is the first sentence of an answer in a chat."""
        messages = self.text.prompt.messages
        return bool(messages) and messages[-1].role != "assistant" and not self.place.sentences

    @property
    def may_reason(self) -> bool:
        """Whether the model may think before it writes: at the beginning of an answer."""
        text = self.text
        return self.begins_answer and not text.full_text and text.reasoning is None

    @property
    def tokens_left(self) -> int:
        """The number of tokens left for the text."""
        return self.config.max_tokens - self.place.tokens

    @property
    def max_tokens(self) -> int:
        """The maximum number of tokens of the sentence."""
        return min(self.tokens_left, self.config.max_sentence_tokens)

    @property
    def call_tokens(self) -> int | None:
        """The maximum number of tokens of a candidate that calls tools; None if it has none."""
        limit = self.config.call_tokens
        return None if limit is None else max(1, limit - self.place.tokens)

    def request(
        self,
        *,
        number: int,
        seed: int,
        max_tokens: int,
        stop_condition: Callable[[str], bool],
        head: str = "",
        condition: NDArray[np.float32] | None = None,
    ) -> Request:
        """The request for a candidate.

        Args:
            number: of the request.
            seed: determines the draw.
            max_tokens: maximum number of tokens.
            stop_condition: holds when the candidate may end; stop strings are added to it.
            head: the prefix that the candidate continues.
            condition: passed to ``logits`` with the request.
        """
        if self.config.stop:
            stop_condition = ending_at(
                self.config.stop,
                stop_condition,
                before=self.text.full_text,
                added=lambda text: self.text.added(head + text),
            )
        return Request(
            number=number,
            prompt=self.text.prompt,
            written=self.text.continuation + self.text.add_space(head),
            seed=seed,
            max_tokens=max_tokens,
            stop_condition=stop_condition,
            sampling=self.config.sampling(self.text.prompt),
            logits=self.logits,
            condition=condition,
            call_tokens=self.call_tokens,
            reasoning=self.text.reasoning,
            reasoning_tokens=self.tokens_left if self.may_reason else None,
            on_reasoning=self.on_reasoning if self.may_reason else None,
        )

    def cut(self, candidate: Candidate, head: tuple[str, ...] = ()) -> tuple[Candidate, int]:
        """A candidate cut before the first stop string, and the overlap (see `Draw`).

        Args:
            candidate: the finished candidate.
            head: the prefix that it continues, where a stop string may begin.
        """
        if head:
            candidate = replace(candidate, pieces=(*head, *candidate.pieces))
        if not self.config.stop:
            return candidate, 0
        return cut_at(
            self.config.stop, candidate, before=self.text.full_text, added=self.text.added
        )

    def read(
        self, path: Path, candidate: Candidate, *, tokens: int, overlap: int, at_limit: bool
    ) -> Draw:
        """A draw of a sentence, before it is judged.

        Args:
            path: identifies the draw.
            candidate: the finished candidate, cut at stop strings.
            tokens: the number of tokens drawn.
            overlap: see `Draw`.
            at_limit: whether it reached the limit of the text.
        """
        addition = self.text.read(candidate, truncated=at_limit)
        draw = Draw(
            path,
            tokens,
            addition,
            not candidate.text.strip(),
            overlap=overlap,
            calls=candidate.calls if addition is None or addition.ends else None,
            reasoning=candidate.reasoning,
            truncated=candidate.truncated,
        )
        if addition is None:
            draw.failure = candidate.failure
        elif addition.sentence:
            draw.pending = addition.sentence
            draw.is_repeated = self.is_repeated(addition.sentence)
        return draw

    def is_repeated(self, sentence: str) -> bool:
        """Whether a sentence repeats so much of the text that it is rejected."""
        return self.text.repeated_share(sentence) > self.config.most_repeated


class Screening:
    """Decides on the draws of a sentence that need not be judged.

    Attributes:
        repeated: the draws that repeat the text.
        empty: the first draw in which the model wrote nothing.

    Args:
        may_call: whether a draw without text may be kept for its calls of tools. Calls after a
            sentence come with that sentence: what followed it has decided that the text continues.
    """

    def __init__(self, *, may_call: bool = False) -> None:
        self.repeated: list[Draw] = []
        self.empty: Draw | None = None
        self._may_call = may_call
        self._expects_sentence = False

    def copy(self) -> Screening:
        """An independent copy."""
        other = Screening(may_call=self._may_call)
        other.repeated, other.empty = list(self.repeated), self.empty
        other._expects_sentence = self._expects_sentence
        return other

    def screen(self, draw: Draw) -> Result | None:
        """The outcome of a draw; None if the rule has to judge it.

        The first candidate that fits decides whether a sentence follows or something that carries
        no mark. If any later candidate could decide that without being judged, marked texts would
        fill up with what carries no mark.
        """
        addition = draw.addition
        if draw.reasoning:
            return "kept"  # with its sentence: the model thinks once
        if addition is None and draw.failure:
            # Another try would only favour sentences short enough for the remaining space.
            return "kept"
        if addition is None and draw.calls and self._may_call:
            return "kept"
        if addition is None or (not addition.sentence and self._expects_sentence):
            self.empty = self.empty or (draw if draw.is_empty else None)
            return "misfit"
        if not addition.sentence:
            return "kept"
        self._expects_sentence = True
        if draw.is_repeated:
            self.repeated.append(draw)
            return "repeated"
        return None


class SentenceRule:
    """The watermark's rule for one sentence.

    Attributes:
        pool: the number of draws that are compared at once.
        is_unconstrained: whether any sentence is kept (see `is_unconstrained`).
        budget: maximum number of candidates; 1 for greedy sampling, where all would be the same.

    Args:
        watermark: judges the candidates.
        task: the sentence.
    """

    def __init__(self, watermark: SentenceWatermark, task: SentenceTask) -> None:
        self.pool = watermark.pool
        self.is_unconstrained = is_unconstrained(task, watermark)
        budget = task.config.budget or watermark.capabilities.trials or BUDGET
        self.budget = 1 if task.config.sampling(task.text.prompt).is_greedy else budget
        self._previous = task.previous
        self._watermark = watermark.capabilities.rule_at(task.place.sentences)

    def judge(self, draws: Sequence[Draw]) -> Draw | None:
        """Judge draws together, once; returns the accepted one, if any."""
        if draws[0].score is None:
            rows = [draw.embedding for draw in draws if draw.embedding is not None]
            choice = self._watermark.choose(self._previous, np.stack(rows))
            for index, (draw, score) in enumerate(zip(draws, choice.scores, strict=True)):
                draw.score = score
                draw.accepted = choice.accepted and index == choice.index
        return next((draw for draw in draws if draw.accepted), None)


def is_unconstrained(task: SentenceTask, watermark: SentenceWatermark) -> bool:
    """Whether any sentence is kept: none precedes it, it begins an answer, or it has no room."""
    if task.begins_answer and task.config.answer_start == "free":
        return True
    if task.tokens_left < task.config.min_sentence_tokens:
        return True
    return task.previous is None and not watermark.judges_beginnings
