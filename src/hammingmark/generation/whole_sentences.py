"""Complete sentences, judged in the order of their draws; the first accepted one is kept.

With free capacity, more candidates are drawn than the first one, and the next sentence is begun
speculatively after the first accepted candidate, assuming that those before it will be rejected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from hammingmark.generation.insistence import Insistence
from hammingmark.generation.sentence_task import Draw, Path, Screening, SentenceRule, SentenceTask
from hammingmark.protocols import SentenceWatermark
from hammingmark.records import Candidate, Request


class WholeSentences:
    """The policy that draws complete sentences, and keeps the first accepted or the best of a pool.

    Args:
        task: the sentence.
        watermark: judges the candidates.
    """

    def __init__(self, task: SentenceTask, *, watermark: SentenceWatermark) -> None:
        self._task = task
        self._rule = SentenceRule(watermark, task)
        self._screening = Screening(may_call=not task.text.written)
        self._insistence = Insistence(is_kept=task.config.keeps_insisted and self._rule.pool == 1)
        self._stop_condition = task.text.stop_condition()
        self._next = 0  # the first draw that has not been judged
        self._pool: list[Draw] = []
        self._rejected: list[Draw] = []
        self._choice: Draw | None = None

    @property
    def budget(self) -> int:
        """Maximum number of candidates."""
        return self._rule.budget

    def parallel_draws(self, acceptance: float, width: int) -> int:
        """Enough draws to make it unlikely that all are rejected.

        The greater the width, the less a spare candidate costs compared with a second round. So all
        are rejected once in ``width`` sentences.
        """
        # A model that thinks before it answers does so once, in the first draw.
        if self._rule.is_unconstrained or (self._task.may_reason and not self._next):
            return 1
        log_rejected = math.log1p(-min(0.99, max(0.01, acceptance)))
        return self._rule.pool * max(1, math.ceil(-math.log(width) / log_rejected))

    def next_paths(self) -> Iterable[Path]:
        """All draws that have not been judged, in order."""
        return ((number,) for number in range(self._next, self.budget))

    def request(self, path: Path, *, number: int, seed: int) -> Request:
        """Request one more sentence."""
        return self._task.request(
            number=number,
            seed=seed,
            max_tokens=self._task.max_tokens,
            stop_condition=self._stop_condition,
        )

    def read(self, path: Path, candidate: Candidate) -> Sequence[Draw]:
        """Read a sentence."""
        task, tokens = self._task, candidate.tokens
        candidate, overlap = task.cut(candidate)
        is_last = task.tokens_left <= task.config.max_sentence_tokens
        at_limit = candidate.truncated and (is_last or candidate.reasoning is not None)
        return [task.read(path, candidate, tokens=tokens, overlap=overlap, at_limit=at_limit)]

    def speculate(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The first accepted one of the finished draws."""
        if self._rule.pool > 1:
            return None
        if choice := self.decide(draws):
            return choice
        screening = self._screening.copy()
        for path in self.next_paths():
            draw = draws.get(path)
            if draw is None or draw.pending:
                continue
            result = screening.screen(draw)
            if result == "kept" or (result is None and self._is_accepted(draw)):
                return draw
        return None

    def decide(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The first accepted draw, once all before it are finished; or the fallback."""
        while self._choice is None and self._next < self.budget:
            draw = draws.get((self._next,))
            if draw is None or draw.pending:
                return None
            self._next += 1
            self._choice = self._judge(draw)
            if self._choice is None and self._next == self.budget:
                self._choice = self._judge_pool() or self._fall_back(draw)
        return self._choice

    def _judge(self, draw: Draw) -> Draw | None:
        """Judge a draw; returns the draw to keep, if there is one."""
        draw.result = self._screening.screen(draw)
        if draw.result is None and self._rule.is_unconstrained:
            draw.result = "kept"
        if draw.result is not None:
            return draw if draw.result == "kept" else None
        self._pool.append(draw)
        return self._judge_pool() if len(self._pool) == self._rule.pool else None

    def _judge_pool(self) -> Draw | None:
        if not self._pool:
            return None
        choice = self._rule.judge(self._pool)
        for draw in self._pool:
            draw.result = "accepted" if draw.accepted else "rejected"
        if choice is None:
            (*_, last) = self._pool
            assert last.addition is not None
            if self._insistence.comes_again(last, last.addition.sentence):
                last.result = "insisted"
                choice = last
            self._rejected += self._pool
        self._pool = []
        return choice

    def _is_accepted(self, draw: Draw) -> bool:
        return self._rule.is_unconstrained or self._rule.judge([draw]) is not None

    def _fall_back(self, last: Draw) -> Draw:
        """The draw to keep, or to end the text with, when the budget is spent.

        The best rejected draw or the last one, otherwise one that repeats the text. If that
        satisfies the rule it counts as accepted, because detection does not know why it was kept.
        """
        if self._rejected:
            # A method that compares a pool always keeps its best.
            if self._task.config.fallback == "last" and self._rule.pool == 1:
                return self._rejected[-1]
            return max(self._rejected, key=lambda draw: draw.score or 0.0)
        repeated = self._screening.repeated
        if repeated:
            if not self._rule.is_unconstrained:
                self._rule.judge(repeated[:1])
            return repeated[0]
        return self._screening.empty or last
