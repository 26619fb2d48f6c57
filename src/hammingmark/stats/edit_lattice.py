"""A likelihood ratio summed over edit hypotheses.

The mark links each sentence to the one before. Joining two sentences, splitting one or inserting
one breaks such links, although the sentences are still there. So a text has many readings: a
sentence may be unedited, two sentences that were joined, half of a sentence that was split, or an
insertion. Each reading is a chain of parts with a likelihood ratio, and the ratio of the text is
the sum over all readings, weighted by their probabilities. The forward algorithm computes it. Some
edits are left out: two insertions in a row, and an insertion next to a half or a pair.

The test stays exact, because the same sum is computed under the secret key and under every
reference key. Wrong probabilities of edits only cost power.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

JOINED = 0.1
"""Probability that a sentence with a boundary inside was two sentences."""
CUT = 0.05
"""Probability that two sentences were one."""
INSERTED = 0.05
"""Probability that a sentence was inserted."""


@dataclass(frozen=True, slots=True)
class _Boundary:
    """The parts at the boundary between two sentences.

    Attributes:
        ending: parts that end here.
        beginning: parts that begin here, each with its log-probability; the sentence first.
        halves: those of them that are the first half of a sentence, each with the second half.
    """

    ending: tuple[int, ...]
    beginning: tuple[tuple[int, float], ...]
    halves: tuple[tuple[int, int], ...]


class EditLattice:
    """The readings of n sentences, as steps from one part to the next.

    Args:
        begins: number of the boundary at which each part begins, (N,). The first n parts are the
            sentences, between the boundaries i and i + 1; boundaries above n lie within a sentence.
        ends: number of the boundary at which each part ends, (N,).
        sentences: n.

    Attributes:
        before: the first part of each step, (s,).
        after: the second, (s,).
    """

    def __init__(self, begins: Sequence[int], ends: Sequence[int], *, sentences: int) -> None:
        beginning: dict[int, list[int]] = {}
        ending: dict[int, list[int]] = {}
        for part, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            beginning.setdefault(begin, []).append(part)
            ending.setdefault(end, []).append(part)
        self._boundaries = [
            _Boundary(
                tuple(ending.get(number, ())),
                _with_probabilities(beginning.get(number, ()), ends, sentences=sentences),
                tuple(
                    (first, second)
                    for first in beginning.get(number, ())
                    if ends[first] > sentences
                    for second in beginning[ends[first]]
                ),
            )
            for number in range(sentences + 1)
        ]
        steps = [step for number in range(sentences) for step in self._steps(number)]
        pairs = np.array(steps, dtype=np.intp).reshape(len(steps), 2)
        self.before: NDArray[np.intp] = pairs[:, 0]
        self.after: NDArray[np.intp] = pairs[:, 1]

    def _steps(self, number: int) -> Iterator[tuple[int, int]]:
        """The steps at one boundary, in the order of ``read``."""
        boundary = self._boundaries[number]
        for part, _ in boundary.beginning:
            for before in boundary.ending:
                yield before, part
            if part == number and number >= 2:
                yield number - 2, part  # skips a sentence that was inserted
        yield from boundary.halves

    def read(self, ratios: Iterator[NDArray[np.float64]]) -> Iterator[NDArray[np.float64]]:
        """The logarithm of the summed ratio, as n - 1 increments that add up to it.

        Args:
            ratios: the log-likelihood ratio of each step under k keys, (k,), in order.

        Yields:
            n - 1 times (k,): the change of the logarithm of the text's ratio by each sentence after
            the first.
        """
        inserted = float(np.log(INSERTED))
        mass: dict[int, NDArray[np.float64]] = {}  # log-ratio of all readings that end with a part
        last_total: NDArray[np.float64] = np.zeros(1)
        for number, (boundary, following) in enumerate(pairwise(self._boundaries)):
            for part, log_probability in boundary.beginning:
                terms = [mass[before] + next(ratios) for before in boundary.ending]
                if number == 0:
                    terms.append(np.zeros(1))
                elif part == number:
                    terms.append(
                        mass[number - 2] + inserted + next(ratios)
                        if number >= 2
                        else np.array([inserted])
                    )
                mass[part] = log_probability + reduce(np.logaddexp, terms)
            for first, second in boundary.halves:
                mass[second] = mass.pop(first) + next(ratios)
            if number:
                total = reduce(
                    np.logaddexp,
                    [mass[number - 1] + inserted, *(mass[part] for part in following.ending)],
                )
                yield total - last_total
                last_total = total
                for part in self._boundaries[number - 1].ending:  # no later step begins there
                    del mass[part]


def _with_probabilities(
    parts: Sequence[int], ends: Sequence[int], *, sentences: int
) -> tuple[tuple[int, float], ...]:
    """The parts that begin at one boundary, with log-probabilities; the sentence is the first.

    A part that ends within the sentence is its first half; one that ends at the next boundary but
    one is two sentences.
    """
    halves = [part for part in parts[1:] if ends[part] > sentences]
    probabilities = {part: JOINED / len(halves) if part in halves else CUT for part in parts[1:]}
    whole = 1.0 - INSERTED - sum(probabilities.values())
    return tuple((part, float(np.log(probabilities.get(part, whole)))) for part in parts)
