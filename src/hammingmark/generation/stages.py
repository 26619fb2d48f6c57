"""Sentences drawn in stages: a promising beginning is kept.

A sentence is drawn a few words at a time. Its beginning is embedded and scored like a sentence, and
``generation.stopping`` says what it will take to get from there to a sentence that is accepted. The
next draw is always from the beginning from which that is least. What is accepted in the end is
accepted by the same rule as ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hammingmark.generation.config import SENTENCE_TOKENS
from hammingmark.generation.sentence_task import Draw, Path, SentenceRule, SentenceTask
from hammingmark.generation.stopping import Stages
from hammingmark.protocols import SentenceWatermark
from hammingmark.records import Candidate, Request

_AHEAD = 8  # draws from one beginning at once
_ALONE = 8  # lanes of a text that has the model to itself
_COPY = 100.0  # by which a sentence that was said before comes behind all others


@dataclass(slots=True)
class _Beginning:
    """A place to draw from.

    Attributes:
        path: the draw that led to it.
        pieces: what it begins with.
        length: tokens of it.
        sentence: what can be judged of it, if anything.
        whole: whether that is a whole sentence, if only another follows.
        place: the last of the places of `Stages` that it has reached.
        score: of what it is so far.
        draws: how often it was drawn from.
        sure: whether to go on with it at once: it satisfies the rule if it is whole, or cannot be
            judged yet.
        cost: expected tokens until a sentence is accepted from here.
    """

    path: Path = ()
    pieces: tuple[str, ...] = ()
    length: int = 0
    sentence: str = ""
    whole: bool = False
    place: int = 0
    score: float = 0.0
    draws: int = 0
    sure: bool = False
    cost: float = 0.0


class StagedSentences:
    """Draws sentences in stages, and keeps the first whole one that is accepted.

    The path of a draw has a number for each stage: which draw it is from the beginning before.

    Args:
        task: the sentence.
        watermark: judges sentences and their beginnings.
        stages: where beginnings are judged, and what they are worth.
    """

    def __init__(self, task: SentenceTask, *, watermark: SentenceWatermark, stages: Stages) -> None:
        self._task = task
        self._rule = SentenceRule(watermark, task)
        self._stages = stages
        self._complete = task.accepted.stop_condition()
        # Draws at most: as many tokens as the budget of whole sentences would take.
        self._limit = max(1, self.budget * SENTENCE_TOKENS // stages.tokens)
        self._here = _Beginning()
        self._read: dict[Path, _Beginning] = {(): self._here}  # all that came back
        self._open = [self._here]  # those to draw from
        self._last: _Beginning | None = None  # the one that is brought to its end
        self._texts: set[str] = set()  # of all beginnings
        self._judged: list[Draw] = []
        self._refused: list[tuple[float, Path, Draw]] = []  # whole sentences
        self._ended: list[tuple[float, _Beginning]] = []  # the same but for what follows
        self._copies: list[Draw] = []
        self._silent: Draw | None = None
        self._prose = False
        self._estimate(self._here)

    @property
    def budget(self) -> int:
        """Whole candidates at most."""
        return self._rule.budget

    def wanted(self, acceptance: float, lanes: int) -> int:
        """All draws ahead that there are lanes for, if the text has the model to itself.

        Of a text that shares the model with many others, one at a time: a spare draw takes as
        long as one of another text that is needed.
        """
        return lanes if lanes >= _ALONE else 1

    def ahead(self) -> Iterator[Path]:
        """The draws that may be needed next: from here, and from the next best beginning.

        From each as many as it takes, on average, until one is gone on with or accepted. None that
        is farther ahead: while the next one that is needed is slow, others would be drawn without
        end.
        """
        others = (each for each in self._open if each is not self._here)
        for here in (self._here, min(others, key=lambda each: each.cost, default=None)):
            if here is None:
                continue
            chance = self._stages.p_continue(here.place, here.score, here.draws)
            likely = 1 if here.sure and here.draws == 0 else math.ceil(1.0 / max(1e-3, chance))
            for number in range(here.draws, here.draws + min(likely, _AHEAD)):
                yield (*here.path, number)

    def request(self, path: Path, *, number: int, seed: int) -> Request:
        """Ask for one more stage."""
        here = self._read[path[:-1]]
        head = "".join(here.pieces)
        return self._task.request(
            number=number,
            seed=seed,
            max_tokens=self._stage_tokens(here),
            stop_condition=lambda text: (
                self._complete(head + text) or self._may_be_whole(head, text)
            ),
            head=head,
        )

    def read(self, path: Path, candidate: Candidate) -> Draw:
        """A stage that came back: a whole sentence, a beginning, or nothing that fits."""
        task, here = self._task, self._read[path[:-1]]
        tokens = len(candidate.pieces)
        # A backend may hand over several tokens at once: the limit that was reached tells.
        length = here.length + (self._stage_tokens(here) if candidate.truncated else tokens)
        whole, overlap = task.cut(candidate, here.pieces)
        addition = task.accepted.read(
            whole, truncated=whole.truncated and length >= task.tokens_left
        )
        draw = Draw(path, tokens, addition, not whole.text.strip(), overlap=overlap)
        goes_on = not (whole.finished or whole.failure) and length < task.max_tokens
        if goes_on and (addition is None or not addition.sentence):
            begun = task.accepted.begun(whole.text)
            if begun is not None:
                draw.addition = None
                draw.pending, ended = begun
                draw.repeated = ended and task.is_repeated(draw.pending)
                self._read[path] = _Beginning(
                    path,
                    _without_end(whole.pieces),
                    length,
                    draw.pending,
                    ended,
                    self._stages.place(length),
                )
                return draw
        if addition is None:
            draw.failure = whole.failure
        elif addition.sentence:
            draw.pending = addition.sentence
            draw.repeated = task.is_repeated(addition.sentence)
        return draw

    def guess(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """Nothing is begun on a guess."""
        return None

    def decide(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The whole sentence that is accepted, or what is left when the budget is spent."""
        kept: Draw | None = None
        while kept is None:
            here = self._next()
            if here is None:
                return self._fall_back()
            self._here = here
            draw = draws.get((*here.path, here.draws))
            if draw is None or draw.pending:
                return None
            here.draws += 1
            self._judged.append(draw)
            if draw.path in self._read:
                self._go_on(here, draw)
            else:
                kept = self._take(draw)
            self._estimate(here)
        return kept

    def _next(self) -> _Beginning | None:
        """Where to draw from: where it takes least until a sentence is accepted.

        Once the budget is spent, the best sentence so far is brought to its end, or else the
        beginning that came last. None if all is done that can be.
        """
        if len(self._judged) < self._limit:
            return min(self._open, key=lambda each: each.cost)
        if len(self._judged) >= 2 * self._limit:
            return None
        if self._last is not None and self._last.draws == 0:
            return self._last
        least = -_COPY / 2.0 if self._copies else -np.inf
        best = max((score for score, *_ in self._refused), default=least)
        nearly = max(self._ended, key=lambda each: each[0], default=None)
        if nearly is not None and nearly[0] > best:
            self._ended.remove(nearly)
            self._last = nearly[1]
        elif self._refused or self._copies:
            return None
        else:
            self._last = self._open[-1]
        return self._last

    def _go_on(self, here: _Beginning, draw: Draw) -> None:
        """Take up a beginning, or a sentence that is whole if only another follows."""
        draw.result = "beginning"
        on = self._read[draw.path]
        on.score, on.sure = here.score, True
        if on.sentence:
            self._rule.judge([draw])
            on.score = draw.score or 0.0
            on.sure = on.whole and draw.accepted is True
        text = "".join(on.pieces)
        if text in self._texts:
            return  # the same again
        self._texts.add(text)
        if on.whole and (draw.repeated or not on.sure):
            draw.result = "repeated" if draw.repeated else "refused"
            self._ended.append((on.score - _COPY * draw.repeated, on))
            return
        self._estimate(on)
        self._open.append(on)

    def _take(self, draw: Draw) -> Draw | None:
        """Judge a draw that has come to its end; it, if it is kept or ends the text."""
        addition = draw.addition
        if addition is None and draw.failure:
            draw.result = "kept"
            return draw
        if addition is None or (not addition.sentence and self._prose):
            draw.result = "misfit"
            self._silent = self._silent or (draw if draw.silent else None)
            return None
        if not addition.sentence:
            draw.result = "kept"
            return draw
        self._prose = True
        if draw.repeated:
            draw.result = "repeated"
            self._copies.append(draw)
            return None
        if self._rule.judge([draw]) is not None:
            draw.result = "accepted"
            return draw
        draw.result = "refused"
        self._refused.append((draw.score or 0.0, draw.path, draw))
        return None

    def _fall_back(self) -> Draw:
        """The budget is spent: keep the best sentence, or the last, or a copy, or end the text."""
        if self._refused:
            last = self._task.config.fallback == "last"
            return self._refused[-1][2] if last else max(self._refused)[2]
        if self._copies:
            self._rule.judge(self._copies[:1])
            return self._copies[0]
        return self._silent or self._judged[-1]

    def _stage_tokens(self, here: _Beginning) -> int:
        """Tokens to draw from a beginning at most: up to the next place, if there is one."""
        longest = self._task.max_tokens - here.length
        if here.place + 1 < self._stages.places and not here.whole:
            longest = min(longest, max(1, self._stages.at(here.place + 1) - here.length))
        return longest

    def _may_be_whole(self, head: str, more: str) -> bool:
        """Whether it is time to judge, before the next sentence is begun to see this one's end."""
        accepted = self._task.accepted
        return bool(more.strip()) and accepted.may_be_whole(accepted.spaced(head + more))

    def _estimate(self, here: _Beginning) -> None:
        """Say what a beginning will take, after all that was drawn from it."""
        if here.sure and here.draws == 0:
            here.cost = 0.0
        else:
            here.cost = self._stages.cost(here.place, here.score, here.draws)


def _without_end(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """Pieces without white space at their end: a model begins a word with its space."""
    kept = list(pieces)
    while kept and not kept[-1].strip():
        kept.pop()
    return (*kept[:-1], kept[-1].rstrip()) if kept else ()
