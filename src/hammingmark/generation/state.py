"""One text in the making: the sentence being decided, and those begun on a guess."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import Failure
from hammingmark.generation.candidates import CandidatePolicy, SentenceCandidates
from hammingmark.generation.config import GenerationConfig
from hammingmark.generation.sentence_task import Draw, Path, Place, SentenceTask
from hammingmark.generation.stop_strings import cut_generation, settled_length
from hammingmark.generation.text import AcceptedText
from hammingmark.protocols import Encoder, LogitsProcessor
from hammingmark.records import Cost, Generation, GenerationStep, Request

_DEEPEST = 6  # sentences ahead on a guess
_COSTS = tuple(each.name for each in fields(Cost))

Cancel = Callable[[Sequence[int]], None]
"""Gives up on requests by their numbers."""


class GenerationState:
    """One text in the making.

    Args:
        accepted: empty but for its prompt.
        previous: embedding (d,) of what the first sentence is compared with, or None.
        policy: draws a sentence.
        logits: what is done to the logits of each step.
        config: generation settings.
        number: of the prompt.
        seed: decides every draw, together with its place.
        encoder: embeds what must be embedded before it can be judged.
        resumes: a text that failed, and that this goes on with; its prompt ends with that.
    """

    def __init__(
        self,
        accepted: AcceptedText,
        previous: NDArray[np.float32] | None,
        *,
        policy: Callable[[SentenceTask], CandidatePolicy],
        logits: LogitsProcessor | None,
        config: GenerationConfig,
        number: int,
        seed: int,
        encoder: Encoder | None,
        resumes: Generation | None = None,
    ) -> None:
        self.encoder = encoder
        self.ended: str | None = None
        self.prompt_tokens: int | None = None
        self._failure: Failure | None = None
        self._overlap = 0  # characters at its end that are the beginning of a string to stop at
        self._policy = policy
        self._logits = logits
        self._config = config
        self._number = number
        self._seed = seed
        self._accepted = accepted
        self._resumes = resumes
        self._steps = list(resumes.steps) if resumes else []
        self._released = len(self._settled())  # steps
        self._spent = asdict(resumes.cost if resumes else Cost())
        self._began: float | None = None
        self._ahead = [self._candidates(accepted, previous, Place(number))]

    @property
    def is_asked(self) -> bool:
        """Whether candidates for it are under way."""
        return any(candidates.under_way for candidates in self._ahead)

    def settle(self, cancel: Cancel) -> Iterator[Cost]:
        """Write every sentence that has been decided; what each took."""
        while not self.ended:
            candidates = self._ahead[0]
            kept = candidates.decide()
            if kept is None:
                return
            foreseen = self._is_foreseen(0, kept)
            self._give_up(self._ahead[1:] if not foreseen else [], cancel)
            cancel(candidates.abandon())
            cost = candidates.cost
            self._spend(candidates.spare)
            self._spend(cost)
            self._write(kept, cost)
            following, self.ended = self._after(candidates, kept)
            self._failure, self._overlap = kept.failure, kept.overlap
            if self.ended == "error" and not self._failure:
                self._failure = Failure(
                    "no_candidate",
                    f"No candidate of {candidates.budget} had a sentence that fits; "
                    "the model may need another prompt or a larger sentence limit.",
                )
            self._accepted = following.task.accepted
            if self.ended:
                self._ahead = []
            else:
                self._ahead = self._ahead[1:] if foreseen else [following]
            yield cost
        self.abandon(cancel)

    def release(self) -> Iterator[GenerationStep]:
        """The steps that are final, and have not been released before.

        What may be the beginning of a string to stop at is held back with its step. Of a text
        that ends with an error, what is held back comes with the `generation` alone: whoever goes
        on with the text may still complete the string.
        """
        is_final = self.ended and self.ended != "error"
        steps = self.generation().steps if is_final else self._settled()
        for step in steps[self._released :]:
            self._released += 1
            yield step

    @property
    def held(self) -> Sequence[GenerationStep]:
        """The steps of a text that has failed, or was given up, that have not been released."""
        return self._steps[self._released :] if self.ended in (None, "error") else ()

    def _settled(self) -> Sequence[GenerationStep]:
        """The steps that no string to stop at can change."""
        if not self._config.stop:
            return self._steps
        length = settled_length(self._config.stop, self._accepted.whole)
        count, end = len(self._steps), len(self._accepted.whole)
        while count and end > length:
            count -= 1
            end -= len(self._steps[count].text)
        return self._steps[:count]

    def look_ahead(self, cancel: Cancel) -> None:
        """Begin the next sentence on the guess that what is under way will be refused."""
        for depth in range(_DEEPEST):
            candidates = self._ahead[depth]
            kept = candidates.guess()
            if kept is None:
                self._give_up(self._ahead[depth + 1 :], cancel)
                del self._ahead[depth + 1 :]
                return
            cancel(candidates.abandon(after=kept.path))
            if self._is_foreseen(depth, kept):
                continue
            self._give_up(self._ahead[depth + 1 :], cancel)
            del self._ahead[depth + 1 :]
            following, ended = self._after(candidates, kept)
            if ended:
                return
            self._ahead.append(following)

    def requests(
        self, lanes: int, numbers: Iterator[int], acceptance: float
    ) -> Iterator[tuple[SentenceCandidates, Request]]:
        """What to ask for, so that no more than ``lanes`` candidates are under way."""
        self._began = self._began or time.perf_counter()
        free = lanes - sum(candidates.under_way for candidates in self._ahead)
        for candidates in self._ahead:
            if free <= 0:
                return
            for request in candidates.requests(
                free, numbers, self._draw_seed, acceptance=acceptance, lanes=lanes
            ):
                free -= 1
                yield candidates, request

    def spend(self, **more: float) -> None:
        """Add to the account."""
        for name, value in more.items():
            self._spent[name] += value

    def fail(self, failure: Failure) -> None:
        """End the text with what the encoder failed with."""
        self.ended, self._failure = "error", failure

    def abandon(self, cancel: Cancel) -> None:
        """Give up on all candidates."""
        self._give_up(self._ahead[1:], cancel)
        for candidates in self._ahead[:1]:
            cancel(candidates.abandon())
            self._spend(candidates.cost)
            self._spend(candidates.spare)
        self._ahead = []

    def close(self) -> None:
        """Count what the last, undecided sentence took, and stop the clock."""
        self.abandon(lambda numbers: None)
        if self._began is not None:
            self.spend(seconds=time.perf_counter() - self._began)
            self._began = None

    def generation(self, failure: Failure | None = None) -> Generation:
        """What has been written, and what stopped it if it has not ended by itself."""
        before = self._resumes
        made = Generation(
            text=self._accepted.whole,
            sentences=(*(before.sentences if before else ()), *self._accepted.sentences),
            steps=tuple(self._steps),
            cost=Cost(**self._spent),
            stopped=self.ended or "error",
            failure=self._failure if self.ended else failure,
            prompt_tokens=before.prompt_tokens if before else self.prompt_tokens,
        )
        if not self._overlap:
            return made
        left = len(made.text) - self._overlap
        return cut_generation(made, left, split=self._accepted.sentences_of)

    def _candidates(
        self,
        accepted: AcceptedText,
        previous: NDArray[np.float32] | None,
        place: Place,
        after: Path | None = None,
    ) -> SentenceCandidates:
        task = SentenceTask(accepted, previous, place, self._logits, self._config)
        return SentenceCandidates(task, self._policy(task), after=after)

    def _after(
        self, candidates: SentenceCandidates, kept: Draw
    ) -> tuple[SentenceCandidates, str | None]:
        """The candidates for what follows a draw, and why the text ends with it, if it does."""
        addition, task = kept.addition, candidates.task
        if addition is None:
            return candidates, "end" if kept.silent and not kept.failure else "error"
        place = Place(
            document=task.place.document,
            step=task.place.step + 1,
            sentences=task.place.sentences + sum(unit.carries for unit in addition.units),
            tokens=task.place.tokens + addition.tokens,
        )
        previous = task.previous if kept.embedding is None else kept.embedding
        accepted = task.accepted.with_addition(addition)
        following = self._candidates(accepted, previous, place, kept.path)
        limit = self._config.max_sentences
        ended = None
        if kept.failure:
            ended = "error"
        elif addition.ends or not (addition.tokens or addition.units):
            ended = "end"
        elif addition.truncated or following.task.tokens_left <= 0:
            ended = "tokens"
        elif limit is not None and place.sentences >= limit:
            ended = "sentences"
        return following, ended

    def _write(self, kept: Draw, cost: Cost) -> None:
        """Add a draw to the text."""
        addition = kept.addition
        raw = "" if addition is None else addition.raw
        text, lead = raw, ""
        if not self._accepted.written:
            text = raw.lstrip()
            lead = self._accepted.lead + raw[: len(raw) - len(text)]
        if self._resumes and not self._accepted.written:
            text, lead = self._accepted.gap + text if text else "", ""
        step = GenerationStep(
            document=self._number,
            text=text,
            lead=lead,
            sentence="" if addition is None else addition.sentence,
            accepted=kept.accepted,
            score=kept.score,
            candidates=cost.candidates,
            tokens=0 if addition is None else addition.tokens,
            drawn_tokens=cost.drawn_tokens,
        )
        self.spend(
            tokens=step.tokens,
            fallbacks=int(step.accepted is False),
            constrained=int(step.accepted is not None),
        )
        if step.text:
            self._steps.append(step)

    def _is_foreseen(self, depth: int, kept: Draw) -> bool:
        """Whether the sentence after ``depth`` was begun on the guess that this draw is kept."""
        return len(self._ahead) > depth + 1 and self._ahead[depth + 1].after == kept.path

    def _give_up(self, sentences: Sequence[SentenceCandidates], cancel: Cancel) -> None:
        """Give up on sentences that were begun on a guess."""
        for candidates in sentences:
            cancel(candidates.abandon())
            self._spend(candidates.waste)

    def _spend(self, cost: Cost) -> None:
        for name in _COSTS:
            self._spent[name] += getattr(cost, name)

    def _draw_seed(self, step: int, *draw: int) -> int:
        """A seed for one candidate that depends on nothing but its place."""
        state = np.random.SeedSequence([self._seed, self._number, step, *draw]).generate_state(1)
        return int(state[0]) & 0x7FFFFFFF
