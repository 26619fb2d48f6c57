"""A sentence that is to be drawn, its draws, and what the rule says of them.

This is what all policies share: requests, strings to stop at, spacing, and judging.
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
from hammingmark.records import Candidate, Request

Path = tuple[int, ...]
"""Which draw of a sentence a candidate is: its number, or one number for each stage."""

Result = Literal["beginning", "misfit", "repeated", "refused", "accepted", "kept"]
"""What became of a draw: ``kept`` is one of which nothing is asked."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in its text a sentence stands.

    Attributes:
        document: number of the prompt.
        step: how many steps were taken before.
        sentences: how many sentences were written before.
        tokens: how many tokens were emitted before.
    """

    document: int
    step: int = 0
    sentences: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Draw:
    """A candidate that came back, as it stands in its text, and what the rule says of it.

    Attributes:
        path: which draw it is.
        tokens: drawn for it.
        addition: what it adds; None if it does not fit, or is not whole.
        silent: whether the model wrote nothing.
        failure: why the model could not go on, if that ends the text.
        overlap: how many characters before it are the beginning of a string to stop at, so that
            the text ends before them.
        pending: what must be embedded before it can be judged; empty once it is.
        repeated: whether it was said before.
        embedding: of its sentence, or of the context after it, (d,).
        accepted: whether it satisfies the rule; None if it was not judged.
        score: how far it does.
        result: what became of it; None as long as the policy has not come to it.
    """

    path: Path
    tokens: int
    addition: Addition | None
    silent: bool = False
    failure: Failure | None = None
    overlap: int = 0
    pending: str = ""
    repeated: bool = False
    embedding: NDArray[np.float32] | None = None
    accepted: bool | None = None
    score: float | None = None
    result: Result | None = None


@dataclass(frozen=True)
class SentenceTask:
    """A sentence that is to be drawn.

    Attributes:
        accepted: the text before it.
        previous: embedding of the sentence before it, (d,), or None at the beginning of a text;
            where ``logits`` follow a context, that of the context.
        place: where it stands.
        logits: what is done to the logits of each step.
        config: generation settings.
    """

    accepted: AcceptedText
    previous: NDArray[np.float32] | None
    place: Place
    logits: LogitsProcessor | None
    config: GenerationConfig

    @property
    def tokens_left(self) -> int:
        """Tokens that the text may still have."""
        return self.config.max_tokens - self.place.tokens

    @property
    def max_tokens(self) -> int:
        """Tokens that the sentence may have."""
        return min(self.tokens_left, self.config.max_sentence_tokens)

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
        """Ask for a candidate.

        Args:
            number: of the request.
            seed: decides the draw.
            max_tokens: at most so many.
            stop_condition: whether it need not go on, as long as no string to stop at has come.
            head: what the sentence begins with.
            condition: what ``logits`` are told about the text.
        """
        if self.config.stop:
            stop_condition = ending_at(
                self.config.stop,
                stop_condition,
                before=self.accepted.whole,
                added=lambda text: self.accepted.added(head + text),
            )
        return Request(
            number=number,
            prompt=self.accepted.prompt,
            written=self.accepted.continued + self.accepted.spaced(head),
            seed=seed,
            max_tokens=max_tokens,
            stop_condition=stop_condition,
            sampling=self.config.sampling(self.accepted.prompt),
            logits=self.logits,
            condition=condition,
        )

    def cut(self, candidate: Candidate, head: tuple[str, ...] = ()) -> tuple[Candidate, int]:
        """A candidate up to a string to stop at, and how much of that stands before it.

        Args:
            candidate: what came back.
            head: what its sentence begins with; a string may begin there.
        """
        if head:
            candidate = replace(candidate, pieces=(*head, *candidate.pieces))
        if not self.config.stop:
            return candidate, 0
        accepted = self.accepted
        return cut_at(self.config.stop, candidate, before=accepted.whole, added=accepted.added)

    def is_repeated(self, sentence: str) -> bool:
        """Whether so much of a sentence was said before that it is refused."""
        return self.accepted.repeats(sentence) > self.config.most_repeated


class SentenceRule:
    """What a watermark asks of one sentence.

    Attributes:
        pool: how many draws are compared at once.
        is_free: whether nothing is asked, because nothing stands before the sentence.
        budget: candidates at most. Where only the likeliest token is drawn, every candidate would
            be the same.

    Args:
        watermark: judges the candidates.
        task: the sentence.
    """

    def __init__(self, watermark: SentenceWatermark, task: SentenceTask) -> None:
        self.pool = watermark.pool
        self.is_free = task.previous is None and not watermark.judges_beginnings
        allowed = task.config.budget or watermark.capabilities.trials or BUDGET
        self.budget = 1 if task.config.sampling(task.accepted.prompt).is_greedy else allowed
        self._previous = task.previous
        self._watermark = watermark.capabilities.rule_at(task.place.sentences)

    def judge(self, draws: Sequence[Draw]) -> Draw | None:
        """Judge draws together, once; the one that is accepted, if any is."""
        if draws[0].score is None:
            rows = [draw.embedding for draw in draws if draw.embedding is not None]
            choice = self._watermark.choose(self._previous, np.stack(rows))
            for index, (draw, score) in enumerate(zip(draws, choice.scores, strict=True)):
                draw.score = score
                draw.accepted = choice.accepted and index == choice.index
        return next((draw for draw in draws if draw.accepted), None)
