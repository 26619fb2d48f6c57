"""The candidates for one sentence, judged in the order in which they were drawn.

However soon each is finished: taking the first to finish would favour short sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import Failure
from hammingmark.generation.config import BUDGET, GenerationConfig
from hammingmark.generation.stop_strings import cut_at, ending_at
from hammingmark.generation.text import AcceptedText, Addition, may_end
from hammingmark.protocols import (
    SentenceWatermark,
    TokenWatermark,
)
from hammingmark.records import Candidate, Choice, Cost, Request


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a sentence's candidates led to.

    Attributes:
        draw: number of the candidate that is kept.
        addition: what it adds; None if there is nothing to keep and the text is over.
        embedding: of its sentence, or of the context after it, (d,), if anybody asked for it.
        accepted: whether it satisfies the rule; None if nothing was asked of it.
        score: how far it does.
        silent: whether the model had nothing to say.
        failure: why the model could not go on, if that ends the text.
        back: how many characters before it are the beginning of a string to stop at, so that the
            text ends before them.
    """

    draw: int
    addition: Addition | None
    embedding: NDArray[np.float32] | None = None
    accepted: bool | None = None
    score: float | None = None
    silent: bool = False
    failure: Failure | None = None
    back: int = 0


@dataclass(slots=True)
class _Draw:
    """One candidate that came back."""

    tokens: int
    addition: Addition | None
    silent: bool
    failure: Failure | None = None
    back: int = 0
    repeated: bool = False
    waits: bool = False
    embedding: NDArray[np.float32] | None = None


class SentenceCandidates:
    """One sentence in the making.

    Args:
        accepted: the text before it.
        previous: embedding of the sentence before it, (d,), or None at the beginning of a text;
            where ``logits`` follow a context, that of the context.
        watermark: judges the candidates; None takes the first whole.
        logits: what is done to the logits of each step. Where they follow a context, a candidate
            ends as soon as that is another.
        config: limits and habits.
        place: where the sentence stands.
        after: number of the draw that this candidates follows, if that is still a guess.
    """

    def __init__(
        self,
        accepted: AcceptedText,
        previous: NDArray[np.float32] | None,
        *,
        watermark: SentenceWatermark | None,
        logits: TokenWatermark | None = None,
        config: GenerationConfig,
        place: Place,
        after: int | None = None,
    ) -> None:
        self.accepted = accepted
        self.place = place
        self.after = after
        self.previous = previous
        self._watermark = watermark
        self._logits = logits
        self._context = logits.capabilities.context if logits else None
        self._config = config
        self._sampling = config.sampling(accepted.prompt)
        self._drawn = 0
        self._under_way: dict[int, int] = {}
        self._draws: dict[int, _Draw] = {}
        self._choices: dict[tuple[int, ...], Choice] = {}

    @property
    def budget(self) -> int:
        """Candidates at most; an unmarked text is drawn in one go.

        Where only the likeliest token is drawn, every candidate would be the same.
        """
        if self._watermark is None or self._sampling.is_greedy:
            return 1
        return self._config.budget or self._watermark.capabilities.trials or BUDGET

    @property
    def _is_free(self) -> bool:
        """Whether nothing is asked of the sentence, because nothing is before it."""
        judged = self._watermark is not None and self._watermark.judges_beginnings
        return self.previous is None and not judged

    @property
    def left(self) -> int:
        """Tokens that the text may still have."""
        return self._config.max_tokens - self.place.tokens

    @property
    def under_way(self) -> list[int]:
        """Numbers of the requests that have not come back."""
        return list(self._under_way)

    def wanted(self, acceptance: float, lanes: int) -> int:
        """How many candidates should be under way, if lanes are free.

        As many as make it unlikely that all are refused: the more lanes a text has, the less a
        spare candidate costs beside a second round, so once in as many sentences as it has lanes.
        None once one has been accepted: only those drawn before it matter then, and they are
        under way.
        """
        if self._watermark is None or self._is_free:
            return 1
        if self.guess() is not None:
            return 0
        pool = self._watermark.pool
        refused = math.log1p(-min(0.99, max(0.01, acceptance)))
        return pool * max(1, math.ceil(-math.log(lanes) / refused))

    def requests(
        self, width: int, numbers: Iterator[int], seed: Callable[[int, int], int]
    ) -> Iterator[Request]:
        """New requests until ``width`` candidates are under way or the budget is asked for.

        Args:
            width: candidates under way, those before included.
            numbers: names the requests.
            seed: gives the seed of a step and a draw.
        """
        free = self._watermark is None
        limit = self._config.max_sentences
        enough = self.accepted.enough_sentences(limit) if free else self.accepted.enough()
        if free and self._config.in_parts:
            enough = _either(enough, may_end)
        condition = None
        if self._context:
            enough = _either(enough, self._context.context_changes(self.accepted.written))
            if self.previous is not None:
                condition = self._context.condition(self.previous[None])[0]
        longest = self.left if free else min(self.left, self._config.max_sentence_tokens)
        while len(self._under_way) < width and self._drawn < self.budget:
            request = Request(
                number=next(numbers),
                prompt=self.accepted.prompt,
                written=self.accepted.continued,
                seed=seed(self.place.step, self._drawn),
                max_tokens=longest,
                enough=self._or_stop(enough),
                sampling=self._sampling,
                logits=self._logits,
                condition=condition,
            )
            self._under_way[request.number] = self._drawn
            yield request
            self._drawn += 1

    def receive(self, candidate: Candidate) -> tuple[Any, str | None]:
        """Take a candidate that has finished: its draw, and the text to embed, if any."""
        draw = self._under_way.pop(candidate.number)
        tokens = len(candidate.pieces)
        candidate, back = self._cut(candidate)
        if self._watermark is None:
            whole = self.accepted.read_all(candidate, most=self._config.max_sentences)
            read = _Draw(tokens, whole, silent=False, failure=candidate.failure, back=back)
            self._draws[draw] = read
            context = self._context_after(whole)
            read.waits = context is not None
            return draw, context
        cut = candidate.cut and self.left <= self._config.max_sentence_tokens
        addition = self.accepted.read(candidate, cut=cut)
        silent = not candidate.text.strip()
        read = _Draw(tokens, addition, silent=silent, failure=candidate.failure, back=back)
        self._draws[draw] = read
        if addition is None or not addition.sentence:
            return draw, None
        read.waits = True
        read.repeated = self.accepted.repeats(addition.sentence) > self._config.most_repeated
        return draw, addition.sentence

    def _or_stop(self, enough: Callable[[str], bool], head: str = "") -> Callable[[str], bool]:
        """Whether a growing candidate need not go on, also because a string to stop at has come.

        Args:
            enough: says it of a candidate without one.
            head: what the sentence began with, before the candidate.
        """
        stop = self._config.stop
        if not stop:
            return enough
        before = self.accepted.written
        return ending_at(stop, enough, before=before, added=lambda text: self._added(head + text))

    def _cut(self, candidate: Candidate) -> tuple[Candidate, int]:
        """A candidate up to a string to stop at, and how much of that stands before it."""
        stop = self._config.stop
        if not stop:
            return candidate, 0
        return cut_at(stop, candidate, before=self.accepted.written, added=self._added)

    def _added(self, text: str) -> str:
        """What is added to the text if a candidate is taken."""
        return text if self._watermark is None else self.accepted.spaced(text)

    def _context_after(self, addition: Addition) -> str | None:
        """The context of what follows an addition, if it is another and anything may follow."""
        if not self._context or addition.ends or addition.cut:
            return None
        if not self._context.context_changes(self.accepted.written)(addition.raw):
            return None
        return self._context.context(self.accepted.with_addition(addition).written)

    def place_embedding(self, draw: Any, embedding: NDArray[np.float32]) -> None:
        """Tell the embedding (d,) of a draw's sentence."""
        self._draws[draw].embedding = embedding
        self._draws[draw].waits = False

    def give_up_after(self, draw: int) -> list[int]:
        """Numbers of the requests that were drawn later than ``draw``, no longer waited for."""
        late = [number for number, place in self._under_way.items() if place > draw]
        for number in late:
            del self._under_way[number]
        self._drawn = draw + 1
        return late

    def abandon(self) -> list[int]:
        """Numbers of all requests under way, no longer waited for."""
        numbers = list(self._under_way)
        self._under_way.clear()
        return numbers

    def spare(self, judged: int) -> tuple[int, int]:
        """Candidates that came back and were never judged, and their tokens."""
        unused = [draw.tokens for place, draw in self._draws.items() if place >= judged]
        return len(unused), sum(unused)

    def guess(self) -> Outcome | None:
        """What will be kept if all that have not come back are refused."""
        if self._watermark is None or self._watermark.pool > 1:
            return None
        outcome, _ = self._walk(skip=True)
        return outcome

    def decide(self) -> tuple[Outcome | None, Cost]:
        """What the candidates lead to, judged in drawing order, and what judging them took.

        The outcome is None if more are needed.
        """
        return self._walk(skip=False)

    def _walk(self, *, skip: bool) -> tuple[Outcome | None, Cost]:
        candidates = tokens = tried = passed = repeats = misfits = 0
        prose = False
        silent: _Draw | None = None
        pool: list[int] = []
        ranked: list[tuple[float, int]] = []
        outcome: Outcome | None = None
        for place in range(self.budget):
            draw = self._draws.get(place)
            if draw is None or draw.waits:
                if skip:
                    continue
                break
            candidates += 1
            tokens += draw.tokens
            addition = draw.addition
            if addition is None and draw.failure:
                # Trying again would only favour sentences short enough for the room that is left.
                outcome = Outcome(place, None, failure=draw.failure)
                break
            # Whether prose follows is decided by the first candidate that fits. Letting any later
            # one decide, untested, would fill marked texts with what cannot carry a mark.
            if addition is None or (not addition.sentence and prose):
                silent = silent or (draw if draw.silent else None)
                misfits += 1
                continue
            if not addition.sentence or self._watermark is None:
                failure = draw.failure if self._watermark is None else None
                outcome = Outcome(place, addition, draw.embedding, failure=failure, back=draw.back)
                break
            prose = True
            if draw.repeated:
                repeats += 1
                continue
            if self._is_free:
                outcome = Outcome(place, addition, draw.embedding)
                break
            tried += 1
            pool.append(place)
            if len(pool) == self._watermark.pool:
                outcome = self._judge(tuple(pool), ranked)
                pool = []
                if outcome is not None:
                    passed += 1
                    break
        spent = candidates == self.budget
        if outcome is None and spent and pool:
            outcome = self._judge(tuple(pool), ranked)
            passed += outcome is not None
        if outcome is None and spent:
            outcome = self._fall_back(ranked, silent)
        return outcome, Cost(
            candidates=candidates,
            drawn_tokens=tokens,
            tried=tried,
            passed=passed,
            repeats=repeats,
            misfits=misfits,
        )

    def _judge(self, draws: tuple[int, ...], ranked: list[tuple[float, int]]) -> Outcome | None:
        """Put some draws to the rule; what is accepted, if anything."""
        choice = self._choose(draws)
        if choice.accepted:
            draw = draws[choice.index]
            kept = self._draws[draw]
            score = choice.scores[choice.index]
            return Outcome(draw, kept.addition, kept.embedding, True, score)
        ranked += zip(choice.scores, draws, strict=True)
        return None

    def _choose(self, draws: tuple[int, ...]) -> Choice:
        assert self._watermark is not None
        if draws not in self._choices:
            rows = [self._embedding(draw) for draw in draws]
            rule = self._watermark.capabilities.rule_at(self.place.sentences)
            self._choices[draws] = rule.choose(self.previous, np.stack(rows))
        return self._choices[draws]

    def _embedding(self, draw: int) -> NDArray[np.float32]:
        embedding = self._draws[draw].embedding
        assert embedding is not None
        return embedding

    def _fall_back(self, ranked: list[tuple[float, int]], silent: _Draw | None) -> Outcome:
        """The budget is spent: keep the best candidate, or the last, or end the text.

        A copy of what was said before may satisfy the rule. Then it is accepted: detection does
        not know why it was kept.

        Args:
            ranked: scores and draws of those that were refused.
            silent: the first that said nothing, if one did.
        """
        copies = [place for place, draw in sorted(self._draws.items()) if draw.repeated]
        if ranked:
            # A method that compares a pool is for the best of it.
            alone = self._watermark is None or self._watermark.pool == 1
            last = self._config.fallback == "last" and alone
            score, draw = ranked[-1] if last else max(ranked, key=lambda each: (each[0], -each[1]))
            kept = self._draws[draw]
            return Outcome(draw, kept.addition, kept.embedding, False, score)
        if copies:
            kept = self._draws[copies[0]]
            if self._is_free:
                return Outcome(copies[0], kept.addition, kept.embedding)
            choice = self._choose((copies[0],))
            score = choice.scores[0]
            return Outcome(copies[0], kept.addition, kept.embedding, choice.accepted, score)
        back = silent.back if silent else 0
        return Outcome(self.budget - 1, None, silent=silent is not None, back=back)


def _either(first: Callable[[str], bool], second: Callable[[str], bool]) -> Callable[[str], bool]:
    """Whether one of two functions says so."""
    return lambda text: first(text) or second(text)
