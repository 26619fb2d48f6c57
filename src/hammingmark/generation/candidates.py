"""The candidates for one sentence: a policy, its requests, and their cost.

A policy decides which candidates are drawn and which one is kept (`CandidatePolicy`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from hammingmark.generation.sentence_task import Draw, Path, SentenceTask
from hammingmark.records import Candidate, Cost, Request

MAX_FAILURES = 3
"""How often the requests for one candidate may fail, while no other arrives, until the text ends.
"""


class CandidatePolicy(Protocol):
    """Decides which candidates are drawn for one sentence, and which one is kept.

    Its decision depends on the draws alone, not on the order in which they finish: keeping the
    first to finish would favour short sentences.
    """

    @property
    def budget(self) -> int:
        """Maximum number of candidates."""

    def parallel_draws(self, acceptance: float, width: int) -> int:
        """The number of next draws that should be in flight.

        Args:
            acceptance: the share of candidates that are accepted.
            width: the number that may be in flight.
        """

    def next_paths(self) -> Iterable[Path]:
        """The draws that may be needed, the most urgent first."""

    def request(self, path: Path, *, number: int, seed: int) -> Request:
        """The request for a draw."""

    def read(self, path: Path, candidate: Candidate) -> Sequence[Draw]:
        """The draws in a finished candidate, not judged yet: that of the path, and those after it.

        A candidate may go through several stages, each of which is a draw.
        """

    def speculate(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The draw that is kept if all unfinished ones are rejected; None to wait."""

    def decide(self, draws: Mapping[Path, Draw]) -> Draw | None:
        """The draw that is kept or ends the text; None if more draws are needed.

        Sets the result of each draw that it considers.

        Args:
            draws: the finished draws; some may still have to be embedded.
        """


class SentenceCandidates:
    """The candidates for one sentence, in flight and finished.

    Another candidate is drawn in place of one whose request failed. If `MAX_FAILURES` requests in
    its place fail and no candidate arrives between them, the model is gone and the text ends.

    Attributes:
        task: the sentence.
        follows: the draw of the sentence before, if this one was begun speculatively.

    Args:
        task: the sentence.
        policy: decides what to draw and what to keep.
        follows: see above.
    """

    def __init__(
        self, task: SentenceTask, policy: CandidatePolicy, *, follows: Path | None = None
    ) -> None:
        self.task = task
        self.follows = follows
        self._policy = policy
        self._in_flight: dict[int, Path] = {}
        self._draws: dict[Path, Draw] = {}
        self._redrawn: Counter[Path] = Counter()
        self._failures: Counter[Path] = Counter()  # since a candidate arrived

    @property
    def in_flight(self) -> int:
        """The number of unfinished requests."""
        return len(self._in_flight)

    @property
    def budget(self) -> int:
        """Maximum number of candidates."""
        return self._policy.budget

    @property
    def cost(self) -> Cost:
        """The cost of the draws that have a result."""
        return _cost_of_judged([draw for draw in self._draws.values() if draw.result is not None])

    @property
    def spare(self) -> Cost:
        """The cost of the draws that have none."""
        return _cost_of_spare([draw for draw in self._draws.values() if draw.result is None])

    @property
    def waste(self) -> Cost:
        """The cost of all draws, if the sentence is discarded."""
        return _cost_of_spare(self._draws.values())

    def requests(
        self,
        limit: int,
        numbers: Iterator[int],
        seed: Callable[..., int],
        *,
        acceptance: float,
        width: int,
    ) -> Iterator[Request]:
        """New requests.

        Args:
            limit: maximum number of new requests.
            numbers: numbers for the requests.
            seed: gives the seed for a step and a path.
            acceptance: the share of candidates that are accepted.
            width: the number of candidates of the text that may be in flight.
        """
        if self._policy.speculate(self._draws) is not None:
            return
        paths = list(self._policy.next_paths())
        in_flight = set(self._in_flight.values())
        missing = self._policy.parallel_draws(acceptance, width) - len(
            in_flight.intersection(paths)
        )
        for path in paths:
            if min(missing, limit) <= 0:
                return
            if path in in_flight or path in self._draws:
                continue
            draw_seed = seed(self.task.place.step, *path)
            if redrawn := self._redrawn[path]:
                draw_seed = seed(self.task.place.step, *path, redrawn)
            request = self._policy.request(path, number=next(numbers), seed=draw_seed)
            self._in_flight[request.number] = path
            missing, limit = missing - 1, limit - 1
            yield request

    def receive(self, candidate: Candidate) -> Sequence[Draw]:
        """Read a finished candidate; empty if another is drawn in its place."""
        path = self._in_flight.pop(candidate.number)
        failure = candidate.failure
        if failure is None or candidate.pieces or not failure.is_about_request:
            self._failures.clear()
        else:
            self._failures[path] += 1
            if self._failures[path] < MAX_FAILURES:
                self._redrawn[path] += 1
                return ()
        draws = self._policy.read(path, candidate)
        self._draws |= {draw.path: draw for draw in draws}
        return draws

    def speculate(self) -> Draw | None:
        """The draw that is kept if all unfinished ones are rejected."""
        return self._policy.speculate(self._draws)

    def decide(self) -> Draw | None:
        """The draw that is kept or ends the text; None if more candidates are needed."""
        return self._policy.decide(self._draws)

    def drop_requests(self, *, after: Path | None = None) -> list[int]:
        """Stop waiting for requests; returns their numbers.

        Args:
            after: drop only the draws after this one.
        """
        numbers = [n for n, path in self._in_flight.items() if after is None or path > after]
        for number in numbers:
            del self._in_flight[number]
        return numbers


def _cost_of_judged(draws: Sequence[Draw]) -> Cost:
    """The cost of draws that have a result."""
    results = [draw.result for draw in draws]
    passed = results.count("accepted")
    return Cost(
        candidates=len(results) - results.count("prefix"),
        drawn_tokens=sum(draw.tokens for draw in draws),
        tried=passed + results.count("rejected") + results.count("insisted"),
        passed=passed,
        repeats=results.count("repeated"),
        misfits=results.count("misfit"),
    )


def _cost_of_spare(draws: Iterable[Draw]) -> Cost:
    """The cost of draws that were not needed."""
    tokens = [draw.tokens for draw in draws]
    return Cost(spare=len(tokens), spare_tokens=sum(tokens))
