"""The candidates for one sentence: a policy, and the account of what it drew.

A policy says which candidates are drawn and which is kept (`CandidatePolicy`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from hammingmark.generation.sentence_task import Draw, Path, SentenceTask
from hammingmark.records import Candidate, Cost, Request


class CandidatePolicy(Protocol):
    """Which candidates are drawn for one sentence, and which of them is kept.

    What it decides depends on the draws alone, and not on the order in which they come back: taking
    the first to finish would favour short sentences.
    """

    @property
    def budget(self) -> int:
        """Candidates at most."""

    def wanted(self, acceptance: float, lanes: int) -> int:
        """How many of the draws ahead should be under way.

        Args:
            acceptance: the share of candidates that are accepted.
            lanes: how many may be under way.
        """

    def ahead(self) -> Iterable[Path]:
        """The draws that may be needed, those that are needed first in front."""

    def request(self, path: Path, *, number: int, seed: int) -> Request:
        """Ask for a draw."""

    def read(self, path: Path, candidate: Candidate) -> Draw:
        """A draw that came back, not judged."""

    def guess(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The draw that is kept if all that have not come back are refused; None to wait."""

    def decide(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The draw that is kept, or that ends the text; None if more are needed.

        Says of each draw that it comes to what becomes of it.

        Args:
            draws: those that came back; some may not have been embedded yet.
        """


class SentenceCandidates:
    """The candidates for one sentence, under way and come back.

    Attributes:
        task: the sentence.
        after: the draw that it follows, if that is still a guess.

    Args:
        task: the sentence.
        policy: what to draw, and what to keep.
        after: see above.
    """

    def __init__(
        self, task: SentenceTask, policy: CandidatePolicy, *, after: Path | None = None
    ) -> None:
        self.task = task
        self.after = after
        self._policy = policy
        self._under_way: dict[int, Path] = {}
        self._draws: dict[Path, Draw] = {}

    @property
    def under_way(self) -> int:
        """How many requests have not come back."""
        return len(self._under_way)

    @property
    def budget(self) -> int:
        """Candidates at most."""
        return self._policy.budget

    @property
    def cost(self) -> Cost:
        """What the draws that were judged took."""
        return _judged_cost([draw for draw in self._draws.values() if draw.result is not None])

    @property
    def spare(self) -> Cost:
        """What the others took."""
        return _spare_cost([draw for draw in self._draws.values() if draw.result is None])

    @property
    def waste(self) -> Cost:
        """What all of them took, if the sentence comes to nothing."""
        return _spare_cost(self._draws.values())

    def requests(
        self,
        free: int,
        numbers: Iterator[int],
        seed: Callable[..., int],
        *,
        acceptance: float,
        lanes: int,
    ) -> Iterator[Request]:
        """New requests.

        Args:
            free: at most so many.
            numbers: names the requests.
            seed: gives the seed of a step and a path.
            acceptance: the share of candidates that are accepted.
            lanes: of the text.
        """
        if self._policy.guess(self._draws) is not None:
            return
        ahead = list(self._policy.ahead())
        asked = set(self._under_way.values())
        left = self._policy.wanted(acceptance, lanes) - len(asked.intersection(ahead))
        for path in ahead:
            if min(left, free) <= 0:
                return
            if path in asked or path in self._draws:
                continue
            request = self._policy.request(
                path, number=next(numbers), seed=seed(self.task.place.step, *path)
            )
            self._under_way[request.number] = path
            left, free = left - 1, free - 1
            yield request

    def receive(self, candidate: Candidate) -> Draw:
        """Take a candidate that came back."""
        path = self._under_way.pop(candidate.number)
        draw = self._draws[path] = self._policy.read(path, candidate)
        return draw

    def guess(self) -> Draw | None:
        """What is kept if all that have not come back are refused."""
        return self._policy.guess(self._draws)

    def decide(self) -> Draw | None:
        """What is kept, or ends the text; None if more candidates are needed."""
        return self._policy.decide(self._draws)

    def abandon(self, after: Path | None = None) -> list[int]:
        """Numbers of the requests under way that are no longer waited for.

        Args:
            after: only those of later draws than this.
        """
        late = [n for n, path in self._under_way.items() if after is None or path > after]
        for number in late:
            del self._under_way[number]
        return late


def _judged_cost(draws: Sequence[Draw]) -> Cost:
    """What draws took that were judged."""
    results = [draw.result for draw in draws]
    passed = results.count("accepted")
    return Cost(
        candidates=len(results) - results.count("beginning"),
        drawn_tokens=sum(draw.tokens for draw in draws),
        tried=passed + results.count("refused"),
        passed=passed,
        repeats=results.count("repeated"),
        misfits=results.count("misfit"),
    )


def _spare_cost(draws: Iterable[Draw]) -> Cost:
    """What draws took that were not needed."""
    tokens = [draw.tokens for draw in draws]
    return Cost(spare=len(tokens), spare_tokens=sum(tokens))
