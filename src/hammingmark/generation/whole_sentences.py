"""Whole sentences, judged in the order in which they were drawn; the first accepted is kept.

Where lanes are free, more are drawn than are needed if the first is accepted, and the next sentence
is begun on the guess that those before the first accepted one are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from hammingmark.generation.sentence_task import Draw, Path, SentenceRule, SentenceTask
from hammingmark.protocols import SentenceWatermark
from hammingmark.records import Candidate, Request


class WholeSentences:
    """Draws whole sentences, and keeps the first that is accepted, or the best of a pool.

    Args:
        task: the sentence.
        watermark: judges the candidates.
    """

    def __init__(self, task: SentenceTask, *, watermark: SentenceWatermark) -> None:
        self._task = task
        self._rule = SentenceRule(watermark, task)
        self._stop_condition = task.accepted.stop_condition()
        self._next = 0  # the first draw that was not judged
        self._prose = False
        self._pool: list[Draw] = []
        self._refused: list[Draw] = []
        self._copies: list[Draw] = []
        self._silent: Draw | None = None
        self._kept: Draw | None = None

    @property
    def budget(self) -> int:
        """Candidates at most."""
        return self._rule.budget

    def wanted(self, acceptance: float, lanes: int) -> int:
        """As many as make it unlikely that all are refused.

        The more lanes a text has, the less a spare candidate costs beside a second round, so once
        in as many sentences as it has lanes.
        """
        if self._rule.is_free:
            return 1
        refused = math.log1p(-min(0.99, max(0.01, acceptance)))
        return self._rule.pool * max(1, math.ceil(-math.log(lanes) / refused))

    def ahead(self) -> Iterable[Path]:
        """All that were not judged, in order."""
        return ((number,) for number in range(self._next, self.budget))

    def request(self, path: Path, *, number: int, seed: int) -> Request:
        """Ask for one more sentence."""
        return self._task.request(
            number=number,
            seed=seed,
            max_tokens=self._task.max_tokens,
            stop_condition=self._stop_condition,
        )

    def read(self, path: Path, candidate: Candidate) -> Draw:
        """A sentence that came back."""
        task, tokens = self._task, len(candidate.pieces)
        candidate, overlap = task.cut(candidate)
        at_limit = candidate.truncated and task.tokens_left <= task.config.max_sentence_tokens
        addition = task.accepted.read(candidate, truncated=at_limit)
        draw = Draw(path, tokens, addition, not candidate.text.strip(), overlap=overlap)
        if addition is None:
            draw.failure = candidate.failure
        elif addition.sentence:
            draw.pending = addition.sentence
            draw.repeated = task.is_repeated(addition.sentence)
        return draw

    def guess(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The first that is accepted of those that came back."""
        if self._rule.pool > 1:
            return None
        if kept := self.decide(draws):
            return kept
        prose = self._prose
        for path in self.ahead():
            draw = draws.get(path)
            if draw is None or draw.pending:
                continue
            addition = draw.addition
            if addition is None and draw.failure:
                return draw
            if addition is None or (not addition.sentence and prose):
                continue
            prose = True
            if not addition.sentence or (not draw.repeated and self._is_accepted(draw)):
                return draw
        return None

    def decide(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The first that is accepted, once all before it have come back; or what is left."""
        while self._kept is None and self._next < self.budget:
            draw = draws.get((self._next,))
            if draw is None or draw.pending:
                return None
            self._next += 1
            self._kept = self._take(draw)
            if self._kept is None and self._next == self.budget:
                self._kept = self._judge_pool() or self._fall_back(draw)
        return self._kept

    def _take(self, draw: Draw) -> Draw | None:
        """Judge a draw; it, if it is kept or ends the text."""
        addition = draw.addition
        if addition is None and draw.failure:
            # Trying again would only favour sentences short enough for the room that is left.
            draw.result = "kept"
            return draw
        # Whether prose follows is decided by the first candidate that fits. Letting any later one
        # decide, untested, would fill marked texts with what cannot carry a mark.
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
        if self._rule.is_free:
            draw.result = "kept"
            return draw
        self._pool.append(draw)
        return self._judge_pool() if len(self._pool) == self._rule.pool else None

    def _judge_pool(self) -> Draw | None:
        if not self._pool:
            return None
        kept = self._rule.judge(self._pool)
        for draw in self._pool:
            draw.result = "accepted" if draw.accepted else "refused"
        if kept is None:
            self._refused += self._pool
        self._pool = []
        return kept

    def _is_accepted(self, draw: Draw) -> bool:
        return self._rule.is_free or self._rule.judge([draw]) is not None

    def _fall_back(self, last: Draw) -> Draw:
        """The budget is spent: keep the best candidate, or the last, or a copy, or end the text.

        A copy of what was said before may satisfy the rule. Then it is accepted: detection does
        not know why it was kept.
        """
        if self._refused:
            # A method that compares a pool is for the best of it.
            if self._task.config.fallback == "last" and self._rule.pool == 1:
                return self._refused[-1]
            return max(self._refused, key=lambda draw: draw.score or 0.0)
        if self._copies:
            if not self._rule.is_free:
                self._rule.judge(self._copies[:1])
            return self._copies[0]
        return self._silent or last
