"""One text in the making: the sentence being decided, and those begun on a guess."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import Failure
from hammingmark.generation.candidates import Outcome, Place, SentenceCandidates
from hammingmark.generation.config import GenerationConfig
from hammingmark.generation.stages import StagedCandidates
from hammingmark.generation.stop_strings import cut_generation
from hammingmark.generation.stopping import Stages
from hammingmark.generation.text import AcceptedText
from hammingmark.protocols import Encoder, SentenceWatermark, TokenWatermark
from hammingmark.records import Cost, Generation, GenerationStep, Request

_DEEPEST = 6  # sentences ahead on a guess

Cancel = Callable[[Sequence[int]], None]
"""Gives up on requests by their numbers."""


class GenerationState:
    """One text in the making.

    Args:
        accepted: empty but for its prompt.
        previous: embedding (d,) on which the first sentence is centred, or None.
        watermark: judges the candidates; None draws the text in one go, or in parts where what is
            done to the logits follows a context.
        logits: what is done to the logits of each step.
        config: limits and habits.
        number: of the prompt.
        seed: decides every draw, together with its place.
        encoder: embeds what its candidates need to have embedded.
        stages: where beginnings of sentences are judged; None draws every sentence whole.
    """

    def __init__(
        self,
        accepted: AcceptedText,
        previous: NDArray[np.float32] | None,
        *,
        watermark: SentenceWatermark | None,
        logits: TokenWatermark | None = None,
        config: GenerationConfig,
        number: int,
        seed: int,
        encoder: Encoder | None = None,
        stages: Stages | None = None,
    ) -> None:
        self._stages = stages
        self.encoder = encoder
        self.ended: str | None = None
        self.prompt_tokens: int | None = None
        self._failure: Failure | None = None
        self._back = 0  # characters at its end that are the beginning of a string to stop at
        self._watermark = watermark
        self._logits = logits
        self._config = config
        self._number = number
        self._seed = seed
        self._accepted = accepted
        self._steps: list[GenerationStep] = []
        self._spent = asdict(Cost())
        self._began: float | None = None
        self._ahead = [self._candidates(accepted, previous, Place(number))]

    @property
    def is_asked(self) -> bool:
        """Whether candidates for it are under way."""
        return any(candidates.under_way for candidates in self._ahead)

    def settle(self, cancel: Cancel) -> Iterator[tuple[GenerationStep, Cost]]:
        """Every step that has been decided, with what it took."""
        while not self.ended:
            candidates = self._ahead[0]
            outcome, took = candidates.decide()
            if outcome is None:
                return
            kept = self._ahead[1:] if self._foreseen(0, outcome) else []
            self._drop(self._ahead[1:] if not kept else [], cancel)
            cancel(candidates.abandon())
            spare = candidates.spare(took.candidates)
            self.spend(spare=spare[0], spare_tokens=spare[1])
            self.spend(**asdict(took))
            yield self._write(outcome, took), took
            following, self.ended = self._after(candidates, outcome)
            self._failure, self._back = outcome.failure, outcome.back
            self._accepted = following.accepted
            self._ahead = kept or [following]
        self.abandon(cancel)

    def look_ahead(self, cancel: Cancel) -> None:
        """Begin the next sentence on the guess that what is under way will be refused."""
        for depth in range(_DEEPEST):
            candidates = self._ahead[depth]
            outcome = candidates.guess()
            if outcome is None:
                self._drop(self._ahead[depth + 1 :], cancel)
                del self._ahead[depth + 1 :]
                return
            cancel(candidates.give_up_after(outcome.draw))
            if self._foreseen(depth, outcome):
                continue
            self._drop(self._ahead[depth + 1 :], cancel)
            del self._ahead[depth + 1 :]
            following, ended = self._after(candidates, outcome)
            if ended:
                return
            self._ahead.append(following)

    def requests(
        self, lanes: int, numbers: Iterator[int], acceptance: float
    ) -> Iterator[tuple[SentenceCandidates, Request]]:
        """What to ask for, so that no more than ``lanes`` candidates are under way."""
        self._began = self._began or time.perf_counter()
        free = lanes - sum(len(candidates.under_way) for candidates in self._ahead)
        for candidates in self._ahead:
            if free <= 0:
                return
            here = len(candidates.under_way)
            width = min(candidates.wanted(acceptance, lanes), here + free)
            for request in candidates.requests(width, numbers, self._draw_seed):
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
        self._drop(self._ahead, cancel)

    def close(self) -> None:
        """Count what the last, undecided sentence took, and stop the clock."""
        if not self.ended:
            self.spend(**asdict(self._ahead[0].decide()[1]))
        if self._began is not None:
            self.spend(seconds=time.perf_counter() - self._began)
            self._began = None

    def generation(self, failure: Failure | None) -> Generation:
        """What has been written, and what stopped it if it has not ended by itself."""
        if self.ended == "error":
            failure = self._failure or Failure(
                "no_candidate",
                f"No candidate of {self._ahead[0].budget} had a sentence that fits; "
                "the model may need another prompt or a larger sentence limit.",
            )
        elif self.ended:
            failure = None
        made = Generation(
            text=self._accepted.written,
            sentences=self._accepted.sentences,
            steps=tuple(self._steps),
            cost=Cost(**self._spent),
            stopped=self.ended or "error",
            failure=failure,
            prompt_tokens=self.prompt_tokens,
        )
        if not self._back:
            return made
        left = len(made.text) - self._back
        return cut_generation(made, left, split=self._accepted.sentences_of)

    def _candidates(
        self,
        accepted: AcceptedText,
        previous: NDArray[np.float32] | None,
        place: Place,
        after: int | None = None,
    ) -> SentenceCandidates:
        named: dict[str, Any] = {
            "watermark": self._watermark,
            "logits": self._logits,
            "config": self._config,
            "place": place,
            "after": after,
        }
        if self._stages is None:
            return SentenceCandidates(accepted, previous, **named)
        return StagedCandidates(accepted, previous, stages=self._stages, **named)

    def _after(
        self, candidates: SentenceCandidates, outcome: Outcome
    ) -> tuple[SentenceCandidates, str | None]:
        """The candidates that follows an outcome, and why the text ends with it, if it does."""
        addition, place = outcome.addition, candidates.place
        if addition is None:
            return candidates, "end" if outcome.silent else "error"
        accepted = candidates.accepted.with_addition(addition)
        place = Place(
            document=place.document,
            step=place.step + 1,
            sentences=place.sentences + sum(unit.carries for unit in addition.units),
            tokens=place.tokens + addition.tokens,
        )
        previous = candidates.previous if outcome.embedding is None else outcome.embedding
        following = self._candidates(accepted, previous, place, outcome.draw)
        limit = self._config.max_sentences
        ended = None
        if outcome.failure:
            ended = "error"
        elif addition.ends or not (addition.tokens or addition.units):
            ended = "end"
        elif addition.cut or following.left <= 0:
            ended = "tokens"
        elif limit is not None and place.sentences >= limit:
            ended = "sentences"
        return following, ended

    def _write(self, outcome: Outcome, took: Cost) -> GenerationStep:
        addition = outcome.addition
        raw = "" if addition is None else addition.raw
        text = raw if self._accepted.written else raw.lstrip()
        lead = "" if self._accepted.written else self._accepted.lead + raw[: len(raw) - len(text)]
        step = GenerationStep(
            document=self._number,
            text=text,
            lead=lead,
            sentence="" if addition is None else addition.sentence,
            accepted=outcome.accepted,
            score=outcome.score,
            candidates=took.candidates,
            tokens=0 if addition is None else addition.tokens,
            drawn_tokens=took.drawn_tokens,
        )
        self.spend(
            tokens=step.tokens,
            fallbacks=int(outcome.accepted is False),
            constrained=int(outcome.accepted is not None),
        )
        if step.text:
            self._steps.append(step)
        return step

    def _foreseen(self, depth: int, outcome: Outcome) -> bool:
        """Whether the candidates after ``depth`` was begun on this very outcome."""
        return len(self._ahead) > depth + 1 and self._ahead[depth + 1].after == outcome.draw

    def _drop(self, sentences_ahead: Sequence[SentenceCandidates], cancel: Cancel) -> None:
        for candidates in sentences_ahead:
            cancel(candidates.abandon())
            count, tokens = candidates.spare(0)
            self.spend(spare=count, spare_tokens=tokens)

    def _draw_seed(self, step: int, *draw: int) -> int:
        """A seed for one candidate that depends on nothing but its place."""
        state = np.random.SeedSequence([self._seed, self._number, step, *draw]).generate_state(1)
        return int(state[0]) & 0x7FFFFFFF
