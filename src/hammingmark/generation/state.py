"""The state of one text: the current sentence, and sentences begun speculatively."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields, replace

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import Failure
from hammingmark.generation.candidates import CandidatePolicy, SentenceCandidates
from hammingmark.generation.config import GenerationConfig
from hammingmark.generation.sentence_task import Draw, Path, Place, SentenceTask
from hammingmark.generation.stop_strings import cut_generation, settled_length
from hammingmark.generation.text import AcceptedText
from hammingmark.protocols import Encoder, LogitsProcessor
from hammingmark.records import (
    Cost,
    Generation,
    GenerationStep,
    ModelUsage,
    ReasoningPart,
    Request,
    ToolCalls,
)

_MAX_DEPTH = 6  # sentences begun speculatively
_COST_NAMES = tuple(field.name for field in fields(Cost))

Cancel = Callable[[Sequence[int]], None]
"""Cancels requests by their numbers."""


class GenerationState:
    """The state of one text.

    Args:
        text: empty but for its prompt.
        previous: embedding (d,) of what the first sentence is compared with, or None.
        policy: gives the candidate policy of a sentence.
        logits: modifies the logits of each step.
        config: generation settings.
        number: of the prompt.
        seed: determines every draw, together with its position.
        encoder: embeds what is judged.
        is_judged: whether a rule judges its sentences.
        resumes: a failed text that this one continues; its prompt ends with that text.
        on_reasoning: called with each part of the reasoning before an answer, in another thread.
    """

    def __init__(
        self,
        text: AcceptedText,
        previous: NDArray[np.float32] | None,
        *,
        policy: Callable[[SentenceTask], CandidatePolicy],
        logits: LogitsProcessor | None,
        config: GenerationConfig,
        number: int,
        seed: int,
        encoder: Encoder | None,
        is_judged: bool = False,
        resumes: Generation | None = None,
        on_reasoning: Callable[[ReasoningPart], None] | None = None,
    ) -> None:
        self.encoder = encoder
        self.ended: str | None = None
        self.prompt_tokens: int | None = None
        self.drawn_tokens = 0  # of all candidates, needed or not
        self._failure: Failure | None = None
        self._calls: ToolCalls | None = None
        self._overlap = 0  # characters at the end of the text that begin a stop string
        self._policy = policy
        self._logits = logits
        self._config = config
        self._number = number
        self._seed = seed
        self._text = text
        self._resumes = resumes
        self._is_judged = is_judged
        self._on_reasoning = on_reasoning
        self._steps = list(resumes.steps) if resumes else []
        self._released = len(self._final_steps())  # the number of steps released
        self._cost = asdict(resumes.cost if resumes else Cost())
        self._usage = ModelUsage()
        self._usage_lock = threading.Lock()
        self._began: float | None = None
        # The current sentence, then those begun speculatively after it.
        self._sentences = [self._candidates(text, previous, Place())]

    @property
    def is_begun(self) -> bool:
        """Whether a caller who must not show unmarked text can show its beginning.

        It has its first accepted sentence or, if nothing is judged, its first step.
        """
        return any(step.accepted or not self._is_judged for step in self._steps)

    @property
    def has_requests(self) -> bool:
        """Whether any candidate for it is in flight."""
        return any(candidates.in_flight for candidates in self._sentences)

    def advance(self, cancel: Cancel) -> Iterator[Cost]:
        """Append every sentence that is decided; yields the cost of each."""
        while not self.ended:
            candidates = self._sentences[0]
            draw = candidates.decide()
            if draw is None:
                return
            was_speculated = self._was_speculated(0, draw)
            self._discard([] if was_speculated else self._sentences[1:], cancel)
            cancel(candidates.drop_requests())
            cost = candidates.cost
            self._add(candidates.spare)
            self._add(cost)
            self._append(draw, cost)
            following, self.ended = self._following(candidates, draw)
            self._failure, self._overlap = draw.failure, draw.overlap
            self._calls = draw.calls if self.ended == "calls" else None
            if self.ended == "error" and not self._failure:
                self._failure = Failure(
                    "no_candidate",
                    f"None of {candidates.budget} candidates had a usable sentence. "
                    "Try another prompt or a larger sentence limit.",
                )
            self._text = following.task.text
            if self.ended:
                self._sentences = []
            else:
                self._sentences = self._sentences[1:] if was_speculated else [following]
            yield cost
        self.cancel_requests(cancel)

    def release(self) -> Iterator[GenerationStep]:
        """The steps that have become final since the last call.

        A step that may contain the beginning of a stop string is held back. If the text ends with
        an error, the steps held back are only part of its `generation`, because a text that resumes
        it may still complete the stop string.
        """
        is_final = self.ended and self.ended != "error"
        steps = self.generation().steps if is_final else self._final_steps()
        for step in steps[self._released :]:
            self._released += 1
            yield step

    @property
    def unreleased(self) -> Sequence[GenerationStep]:
        """The steps held back when the text failed or was cancelled."""
        return self._steps[self._released :] if self.ended in (None, "error") else ()

    def _final_steps(self) -> Sequence[GenerationStep]:
        """The steps that no stop string can change any more."""
        if not self._config.stop:
            return self._steps
        length = settled_length(self._config.stop, self._text.full_text)
        count, end = len(self._steps), len(self._text.full_text)
        while count and end > length:
            count -= 1
            end -= len(self._steps[count].text)
        return self._steps[:count]

    def speculate(self, cancel: Cancel) -> None:
        """Begin the next sentence, assuming that unfinished candidates will be rejected."""
        for depth in range(_MAX_DEPTH):
            candidates = self._sentences[depth]
            draw = candidates.speculate()
            if draw is None:
                self._discard_after(depth, cancel)
                return
            cancel(candidates.drop_requests(after=draw.path))
            if self._was_speculated(depth, draw):
                continue
            self._discard_after(depth, cancel)
            following, ended = self._following(candidates, draw)
            if ended:
                return
            self._sentences.append(following)

    def requests(
        self, width: int, numbers: Iterator[int], acceptance: float
    ) -> Iterator[tuple[SentenceCandidates, Request]]:
        """New requests, so that at most ``width`` candidates are in flight."""
        self._began = self._began or time.perf_counter()
        limit = width - sum(candidates.in_flight for candidates in self._sentences)
        for candidates in self._sentences:
            if limit <= 0:
                return
            for request in candidates.requests(
                limit, numbers, self._draw_seed, acceptance=acceptance, width=width
            ):
                limit -= 1
                yield candidates, replace(request, charge=self.charge)

    def charge(self, usage: ModelUsage) -> None:
        """Count what the model read and wrote; may be called from any thread."""
        with self._usage_lock:
            self._usage += usage

    @property
    def cost(self) -> Cost:
        """The cost so far; may be asked for from any thread."""
        with self._usage_lock:
            usage = asdict(self._usage)
        return Cost(**self._cost | {name: self._cost[name] + usage[name] for name in usage})

    def add_cost(self, **amounts: float) -> None:
        """Add to fields of the cost."""
        for name, amount in amounts.items():
            self._cost[name] += amount

    def fail(self, failure: Failure) -> None:
        """End the text with a failure of the encoder."""
        self.ended, self._failure = "error", failure

    def cancel_requests(self, cancel: Cancel) -> None:
        """Cancel all candidates."""
        self._discard(self._sentences[1:], cancel)
        for candidates in self._sentences[:1]:
            cancel(candidates.drop_requests())
            self._add(candidates.cost)
            self._add(candidates.spare)
        self._sentences = []

    def close(self) -> None:
        """Add the cost of the unfinished sentence, and stop the clock."""
        self.cancel_requests(lambda numbers: None)
        if self._began is not None:
            self.add_cost(seconds=time.perf_counter() - self._began)
            self._began = None

    def generation(self, failure: Failure | None = None) -> Generation:
        """The text so far.

        Args:
            failure: what stopped it, if it has not ended by itself.
        """
        before = self._resumes
        generation = Generation(
            text=self._text.full_text,
            sentences=(*(before.sentences if before else ()), *self._text.sentences),
            steps=tuple(self._steps),
            cost=self.cost,
            stopped=self.ended or "error",
            failure=self._failure if self.ended else failure,
            prompt_tokens=before.prompt_tokens if before else self.prompt_tokens,
            calls=self._calls,
            reasoning=self._text.reasoning,
        )
        if not self._overlap:
            return generation
        length = len(generation.text) - self._overlap
        return cut_generation(generation, length, split=self._text.sentences_of)

    def _candidates(
        self,
        text: AcceptedText,
        previous: NDArray[np.float32] | None,
        place: Place,
        *,
        follows: Path | None = None,
    ) -> SentenceCandidates:
        task = SentenceTask(
            text, previous, place, self._logits, self._config, on_reasoning=self._on_reasoning
        )
        return SentenceCandidates(task, self._policy(task), follows=follows)

    def _following(
        self, candidates: SentenceCandidates, draw: Draw
    ) -> tuple[SentenceCandidates, str | None]:
        """The candidates of the sentence after a draw, and why the text ends there, if it does."""
        addition, task = draw.addition, candidates.task
        text = task.text
        if draw.reasoning:
            text = text.with_reasoning(draw.reasoning)
        if addition is None:
            return self._candidates(text, task.previous, task.place), _end_without_text(draw)
        place = Place(
            step=task.place.step + 1,
            sentences=task.place.sentences + sum(unit.carries for unit in addition.units),
            tokens=task.place.tokens + addition.tokens + _reasoning_tokens(draw),
        )
        previous = task.previous if draw.embedding is None else draw.embedding
        text = text.with_addition(addition)
        following = self._candidates(text, previous, place, follows=draw.path)
        limit = self._config.max_sentences
        ended = None
        if draw.failure:
            ended = "error"
        elif draw.calls:
            ended = "calls"
        elif addition.ends or not (addition.tokens or addition.units):
            ended = "end"
        elif addition.truncated or following.task.tokens_left <= 0:
            ended = "tokens"
        elif limit is not None and place.sentences >= limit:
            ended = "sentences"
        return following, ended

    def _append(self, draw: Draw, cost: Cost) -> None:
        """Append a draw to the steps."""
        addition = draw.addition
        raw = "" if addition is None else addition.raw
        text, lead = raw, ""
        if not self._text.written:
            text = raw.lstrip()
            lead = self._text.lead + raw[: len(raw) - len(text)]
        if self._resumes and not self._text.written:
            text, lead = self._text.gap + text if text else "", ""
        step = GenerationStep(
            document=self._number,
            text=text,
            lead=lead,
            sentence="" if addition is None else addition.sentence,
            accepted=draw.accepted,
            score=draw.score,
            candidates=cost.candidates,
            tokens=0 if addition is None else addition.tokens,
            drawn_tokens=cost.drawn_tokens,
            insisted=draw.result == "insisted",
        )
        reasoning_tokens = _reasoning_tokens(draw)
        self.add_cost(
            tokens=step.tokens + reasoning_tokens + (draw.calls.tokens if draw.calls else 0),
            reasoning_tokens=reasoning_tokens,
            fallbacks=int(step.is_fallback),
            insisted=int(step.insisted),
            constrained=int(step.accepted is not None),
        )
        if step.text:
            self._steps.append(step)

    def _was_speculated(self, depth: int, draw: Draw) -> bool:
        """Whether the sentence after ``depth`` was begun assuming that this draw is kept."""
        following = self._sentences[depth + 1 : depth + 2]
        return bool(following) and following[0].follows == draw.path

    def _discard_after(self, depth: int, cancel: Cancel) -> None:
        """Discard the sentences begun after ``depth``."""
        self._discard(self._sentences[depth + 1 :], cancel)
        del self._sentences[depth + 1 :]

    def _discard(self, sentences: Sequence[SentenceCandidates], cancel: Cancel) -> None:
        """Cancel the candidates of sentences that were begun speculatively."""
        for candidates in sentences:
            cancel(candidates.drop_requests())
            self._add(candidates.waste)

    def _add(self, cost: Cost) -> None:
        for name in _COST_NAMES:
            self._cost[name] += getattr(cost, name)

    def _draw_seed(self, step: int, *path: int) -> int:
        """The seed of a draw, which depends only on its position."""
        state = np.random.SeedSequence([self._seed, self._number, step, *path]).generate_state(1)
        return int(state[0]) & 0x7FFFFFFF


def _end_without_text(draw: Draw) -> str:
    """Why a text ends with a draw that adds nothing to it."""
    if draw.calls:
        return "calls"
    if draw.reasoning and draw.truncated:
        return "tokens"
    return "end" if draw.is_empty and not draw.failure else "error"


def _reasoning_tokens(draw: Draw) -> int:
    return draw.reasoning.tokens if draw.reasoning else 0
