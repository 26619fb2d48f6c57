"""Sentences drawn in stages: promising prefixes are continued.

A sentence is drawn a few words at a time. Each prefix is embedded and scored like a sentence, and
`generation.stopping` gives the expected cost of an accepted sentence from it. The next draw always
continues the prefix with the lowest expected cost. The rule for complete sentences is unchanged.

Where a request takes time besides its tokens, it goes through several stages (`Stages.at_once`),
and their prefixes are judged together: a little more is drawn by far fewer requests. The search is
the same, but the first draw from each prefix in the middle of a request is already known.

Where two of the first three draws from a prefix are the same, the model insists on them: nothing
else is drawn from that prefix, and what else was drawn from it is dropped. A sentence on which it
insists to its end is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hammingmark.generation.config import SENTENCE_TOKENS
from hammingmark.generation.insistence import Insistence
from hammingmark.generation.sentence_task import Draw, Path, Screening, SentenceRule, SentenceTask
from hammingmark.generation.stopping import Stages
from hammingmark.protocols import SentenceWatermark
from hammingmark.records import Candidate, Request

_MAX_PARALLEL = 8  # draws in flight from one prefix
_EARLY_DRAWS = 3  # from a prefix, two of which show by being the same that the model insists
_WIDTH_ALONE = 8  # width from which a text counts as having the model to itself
_REPETITION_PENALTY = 100.0  # of the score; ranks a sentence that repeats the text below all others


@dataclass(slots=True)
class _Prefix:
    """A node of the search: the prefix of a sentence.

    Attributes:
        path: the draw that led to it.
        pieces: its tokens as text.
        length: its number of tokens.
        sentence: the part of it that can be judged, if any.
        is_complete: whether that is a complete sentence if another follows.
        stage: the last stage of `Stages` that it has reached.
        score: the score of the prefix.
        draws: the number of draws from it.
        drawn: the path of the first draw from it with each text.
        must_continue: whether to draw from it next: it satisfies the rule if it is complete, or it
            cannot be judged yet, or the model insists on it.
        is_insisted: whether the model insists on it, and it is kept if it is complete.
        expected_cost: expected tokens until a sentence is accepted from here.
    """

    path: Path = ()
    pieces: tuple[str, ...] = ()
    length: int = 0
    sentence: str = ""
    is_complete: bool = False
    stage: int = 0
    score: float = 0.0
    draws: int = 0
    drawn: dict[str, Path] = field(default_factory=dict)
    must_continue: bool = False
    is_insisted: bool = False
    expected_cost: float = 0.0


class StagedSentences:
    """The policy that draws in stages, and keeps the first complete sentence that is accepted.

    The path of a draw has one number per stage: that of the draw from the prefix before.

    Args:
        task: the sentence.
        watermark: judges sentences and prefixes.
        stages: the stages and their expected costs.
    """

    def __init__(self, task: SentenceTask, *, watermark: SentenceWatermark, stages: Stages) -> None:
        self._task = task
        self._rule = SentenceRule(watermark, task)
        self._screening = Screening()
        self._insistence = Insistence(is_kept=task.config.keeps_insisted)
        self._stages = stages
        self._is_over = task.text.stop_condition()
        # Maximum number of draws: the tokens that the budget of complete sentences would take, or
        # of fragments where the text ends before.
        tokens = min(SENTENCE_TOKENS, task.tokens_left)
        self._limit = max(1, self.budget * tokens // stages.tokens)
        self._current = _Prefix()
        self._passed: _Prefix | None = None  # the latest one, if its first draw is known
        self._prefixes: dict[Path, _Prefix] = {(): self._current}  # all finished ones
        self._open = [self._current]  # those to draw from
        self._final: _Prefix | None = None  # the one drawn to its end after the budget is spent
        self._texts: set[str] = set()  # of all prefixes
        self._first_draws: dict[str, Draw] = {}  # with each text to embed
        self._judged: list[Draw] = []
        self._rejected: list[tuple[float, Path, Draw]] = []  # complete sentences
        self._complete: list[tuple[float, _Prefix]] = []  # complete if another sentence follows
        self._estimate(self._current)

    @property
    def budget(self) -> int:
        """Maximum number of complete candidates."""
        return self._rule.budget

    def parallel_draws(self, acceptance: float, width: int) -> int:
        """The full width if the text has the model to itself, otherwise one draw at a time.

        With many texts, a spare draw takes as long as a necessary draw of another text.
        """
        return width if width >= _WIDTH_ALONE else 1

    def next_paths(self) -> Iterator[Path]:
        """The draws that may be needed next: from the current prefix and from the next best one.

        From each prefix, as many as it takes on average until one is continued or accepted. None
        further ahead: while the next necessary draw is slow, others would be drawn without limit.
        """
        others = (prefix for prefix in self._open if prefix is not self._current)
        next_best = min(others, key=lambda prefix: prefix.expected_cost, default=None)
        for prefix in (self._current, next_best):
            if prefix is None:
                continue
            p_continue = self._stages.p_continue(prefix.stage, prefix.score, prefix.draws)
            count = math.ceil(1.0 / max(1e-3, p_continue))
            if prefix.must_continue and prefix.draws == 0:
                count = 1
            for number in range(prefix.draws, prefix.draws + min(count, _MAX_PARALLEL)):
                yield (*prefix.path, number)

    def request(self, path: Path, *, number: int, seed: int) -> Request:
        """Request one more stage, or several."""
        prefix = self._prefixes[path[:-1]]
        head = "".join(prefix.pieces)
        return self._task.request(
            number=number,
            seed=seed,
            max_tokens=self._request_tokens(prefix),
            stop_condition=lambda text: (
                self._is_over(head + text)
                # A request of several stages goes on until the next sentence begins.
                or (self._stages.at_once == 1 and self._may_be_complete(head, text))
            ),
            head=head,
        )

    def read(self, path: Path, candidate: Candidate) -> Sequence[Draw]:
        """Read the stages of a request: prefixes, then a sentence, or what does not fit."""
        draws = self._read_stages(path, candidate)
        for draw in draws:
            first = self._first_draws.setdefault(draw.pending, draw)
            if first.embedding is not None:  # what comes again need not be embedded again
                draw.embedding, draw.pending = first.embedding, ""
        return draws

    def _read_stages(self, path: Path, candidate: Candidate) -> list[Draw]:
        task, origin, tokens = self._task, self._prefixes[path[:-1]], len(candidate.pieces)
        # A backend may return several tokens at once; at a limit, the limit is their number.
        drawn = self._request_tokens(origin) if candidate.truncated else tokens
        length = origin.length + drawn
        candidate, overlap = task.cut(candidate, origin.pieces)
        passed = self._read_passed(path, origin, candidate)
        if passed:
            path, tokens = (*passed[-1].path, 0), tokens - sum(draw.tokens for draw in passed)
        at_limit = candidate.truncated and length >= task.tokens_left
        draw = task.read(path, candidate, tokens=tokens, overlap=overlap, at_limit=at_limit)
        is_over = candidate.finished or candidate.failure or length >= task.max_tokens
        if is_over or (draw.addition is not None and draw.addition.sentence):
            return [*passed, draw]
        unfinished = task.text.read_prefix(candidate.text)
        if unfinished is None:
            return [*passed, draw]
        draw.addition = None
        draw.pending, is_complete = unfinished
        draw.is_repeated = is_complete and task.is_repeated(draw.pending)
        self._add_prefix(path, candidate.pieces, length, draw.pending, is_complete=is_complete)
        return [*passed, draw]

    def _read_passed(self, path: Path, origin: _Prefix, candidate: Candidate) -> list[Draw]:
        """The stages that a request has passed before its end."""
        draws: list[Draw] = []
        begin, length = len(origin.pieces), origin.length
        for stage in range(origin.stage + 1, origin.stage + self._stages.at_once):
            end = self._stages.tokens_at(stage)
            pieces = candidate.pieces[: begin + end - origin.length]
            if stage >= self._stages.count or len(pieces) == len(candidate.pieces):
                break
            unfinished = self._task.text.read_prefix("".join(pieces))
            if unfinished is None:
                break  # its sentence is complete
            sentence, is_complete = unfinished
            if is_complete:
                continue  # what follows tells whether it is
            draws.append(Draw(path, end - length, None, pending=sentence))
            self._add_prefix(path, pieces, end, sentence, is_complete=False)
            path, length = (*path, 0), end
        return draws

    def _add_prefix(
        self, path: Path, pieces: tuple[str, ...], length: int, sentence: str, *, is_complete: bool
    ) -> None:
        stage = self._stages.stage_of(length)
        trimmed = _without_trailing_space(pieces)
        self._prefixes[path] = _Prefix(path, trimmed, length, sentence, is_complete, stage)

    def speculate(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """Always None: the next sentence is not begun speculatively."""
        return None

    def decide(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The complete sentence that is accepted, or the fallback when the budget is spent."""
        choice: Draw | None = None
        task = self._task
        while choice is None:
            prefix = self._passed or self._next()
            if prefix is None:
                return self._fall_back()
            self._current = prefix
            draw = draws.get((*prefix.path, prefix.draws))
            if draw is None or draw.pending:
                return None
            prefix.draws += 1
            child = self._prefixes.get(draw.path)
            self._passed = child if (*draw.path, 0) in draws else None
            self._judged.append(draw)
            if child is not None:
                self._judge_prefix(prefix, draw)
            else:
                choice = self._judge(prefix, draw)
            if choice is None and task.config.keeps_insisted:
                choice = self._keep_insisted(prefix, draw)
            self._estimate(prefix)
        return choice

    def _next(self) -> _Prefix | None:
        """The prefix to draw from: the one with the lowest expected cost.

        When the budget is spent, the best sentence so far is drawn to its end, or else the latest
        prefix. None if nothing is left to draw.
        """
        if self._open and len(self._judged) < self._limit:
            return min(self._open, key=lambda prefix: prefix.expected_cost)
        if len(self._judged) >= 2 * self._limit:
            return None
        if self._final is not None and self._final.draws == 0:
            return self._final
        repeated = self._screening.repeated
        lowest = -_REPETITION_PENALTY / 2.0 if repeated else -np.inf
        best = max((score for score, *_ in self._rejected), default=lowest)
        best_complete = max(self._complete, key=lambda entry: entry[0], default=None)
        if best_complete is not None and best_complete[0] > best:
            self._complete.remove(best_complete)
            self._final = best_complete[1]
        elif self._rejected or repeated or not self._open:
            return None
        else:
            self._final = self._open[-1]
        return self._final

    def _judge_prefix(self, parent: _Prefix, draw: Draw) -> None:
        """Judge a prefix, which may be a complete sentence if another follows."""
        draw.result = "prefix"
        prefix = self._prefixes[draw.path]
        prefix.score, prefix.must_continue = parent.score, True
        if prefix.sentence:
            self._rule.judge([draw])
            prefix.score = draw.score or 0.0
            prefix.must_continue = prefix.is_complete and draw.accepted is True
        text = "".join(prefix.pieces)
        if text in self._texts:
            return  # drawn before
        self._texts.add(text)
        if prefix.is_complete and (draw.is_repeated or not prefix.must_continue):
            draw.result = "repeated" if draw.is_repeated else "rejected"
            if not draw.is_repeated and self._insistence.comes_again(draw, prefix.sentence):
                self._insist_on(prefix)
                return
            penalty = _REPETITION_PENALTY * draw.is_repeated
            self._complete.append((prefix.score - penalty, prefix))
            return
        self._estimate(prefix)
        self._open.append(prefix)

    def _judge(self, parent: _Prefix, draw: Draw) -> Draw | None:
        """Judge a draw that has ended; returns it if it is kept."""
        draw.result = self._screening.screen(draw)
        if draw.result is None:
            is_accepted = self._rule.judge([draw]) is not None
            draw.result = "accepted" if is_accepted else "rejected"
        if draw.result == "rejected":
            assert draw.addition is not None
            is_insisted = parent.is_complete and parent.is_insisted
            if is_insisted or self._insistence.comes_again(draw, draw.addition.sentence):
                draw.result = "insisted"
            else:
                self._rejected.append((draw.score or 0.0, draw.path, draw))
        return draw if draw.result in ("kept", "accepted", "insisted") else None

    def _keep_insisted(self, parent: _Prefix, draw: Draw) -> Draw | None:
        """Drop all other draws from a prefix if the model insists on one; returns it if it is kept.

        It is kept if it is complete, and nothing is left to draw from.
        """
        if draw.result == "misfit" or draw.is_repeated:
            return None
        child = self._prefixes.get(draw.path)
        if child is not None:
            text = "".join(child.pieces).strip()
        else:
            assert draw.addition is not None
            text = draw.addition.raw.strip()
        first = parent.drawn.setdefault(text, draw.path)
        if first == draw.path or parent.draws > _EARLY_DRAWS:
            return None
        self._open = [
            prefix
            for prefix in self._open
            if _begins_with(prefix.path, first) or not _begins_with(prefix.path, parent.path)
        ]
        if self._open:
            return None
        if first in self._prefixes:
            self._insist_on(self._prefixes[first])
            return None
        insisted = next((rejected for _, path, rejected in self._rejected if path == first), None)
        if insisted is not None:
            insisted.result = "insisted"
        return insisted

    def _insist_on(self, prefix: _Prefix) -> None:
        """Draw from a prefix next, and keep its sentence if it turns out to be complete."""
        prefix.is_insisted = prefix.must_continue = True
        self._complete = [entry for entry in self._complete if entry[1] is not prefix]
        self._open.append(prefix)
        self._estimate(prefix)

    def _fall_back(self) -> Draw:
        """The draw to keep, or to end the text with, when the budget is spent.

        The best rejected sentence or the last one, otherwise one that repeats the text.
        """
        if self._rejected:
            is_last = self._task.config.fallback == "last"
            return self._rejected[-1][2] if is_last else max(self._rejected)[2]
        repeated = self._screening.repeated
        if repeated:
            self._rule.judge(repeated[:1])
            return repeated[0]
        return self._screening.empty or self._judged[-1]

    def _request_tokens(self, prefix: _Prefix) -> int:
        """Maximum number of tokens to draw from a prefix: up to a later stage, if there is one."""
        left, last = self._task.max_tokens - prefix.length, self._stages.count - 1
        if prefix.stage < last and not prefix.is_complete:
            end = self._stages.tokens_at(min(prefix.stage + self._stages.at_once, last))
            left = min(left, max(1, end - prefix.length))
        return left

    def _may_be_complete(self, head: str, more: str) -> bool:
        """Whether to judge now, before the next sentence begins and shows that this one ended."""
        text = self._task.text
        return bool(more.strip()) and text.may_be_complete(text.add_space(head + more))

    def _estimate(self, prefix: _Prefix) -> None:
        """Update the expected cost of a prefix after the draws from it."""
        if prefix.must_continue and prefix.draws == 0:
            prefix.expected_cost = 0.0
        else:
            prefix.expected_cost = self._stages.expected_cost(
                prefix.stage, prefix.score, prefix.draws
            )


def _without_trailing_space(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """Pieces without trailing white space, because a model begins a word with its space."""
    trimmed = list(pieces)
    while trimmed and not trimmed[-1].strip():
        trimmed.pop()
    return (*trimmed[:-1], trimmed[-1].rstrip()) if trimmed else ()


def _begins_with(path: Path, beginning: Path) -> bool:
    return path[: len(beginning)] == beginning
