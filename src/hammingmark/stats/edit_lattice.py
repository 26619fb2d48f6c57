"""A likelihood ratio summed over what may have happened to a text.

The mark ties each sentence to the one before. Joining two sentences, splitting one or inserting one
breaks such ties, though the sentences are still there. So a text is read in many ways at once: a
sentence as it stands, as two that were joined, as half of one that was cut, or as one that was put
in. Each reading is a chain of parts with a ratio of its own, and the ratio of the text is their
sum, weighed by how likely such edits are. Summing over all chains is the forward algorithm. Not
every edit is there: no two sentences in a row were put in, and none beside a half or a pair.

The test stays exact: the same sum is taken under the secret key and under every reference key. A
wrong idea of what edits are likely costs power and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

JOINED = 0.1
"""Probability that a sentence with a seam was two."""
CUT = 0.05
"""Probability that two sentences were one."""
INSERTED = 0.05
"""Probability that a sentence was inserted."""


@dataclass(frozen=True, slots=True)
class _Boundary:
    """What can go on between two sentences.

    Attributes:
        arriving: parts that end here.
        leaving: parts that begin here, each with its log-probability; the sentence first.
        seams: of those, halves of a sentence, and the half that follows each.
    """

    arriving: tuple[int, ...]
    leaving: tuple[tuple[int, float], ...]
    seams: tuple[tuple[int, int], ...]


class EditLattice:
    """The readings of n sentences, as steps from one part to the next.

    Args:
        begins: joint at which each part begins, (N,). The first n parts are the sentences, from
            joint i to joint i + 1; joints above n lie within a sentence.
        ends: joint at which each part ends, (N,).
        sentences: n.

    Attributes:
        before: the first part of each step, (s,).
        after: the second, (s,).
    """

    def __init__(self, begins: Sequence[int], ends: Sequence[int], *, sentences: int) -> None:
        leaving: dict[int, list[int]] = {}
        arriving: dict[int, list[int]] = {}
        for part, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            leaving.setdefault(begin, []).append(part)
            arriving.setdefault(end, []).append(part)
        self._boundaries = [
            _Boundary(
                tuple(arriving.get(place, ())),
                _with_probabilities(leaving.get(place, ()), ends, sentences=sentences),
                tuple(
                    (first, second)
                    for first in leaving.get(place, ())
                    if ends[first] > sentences
                    for second in leaving[ends[first]]
                ),
            )
            for place in range(sentences + 1)
        ]
        steps = [step for place in range(sentences) for step in self._steps(place)]
        pairs = np.array(steps, dtype=np.intp).reshape(len(steps), 2)
        self.before: NDArray[np.intp] = pairs[:, 0]
        self.after: NDArray[np.intp] = pairs[:, 1]

    def _steps(self, place: int) -> Iterator[tuple[int, int]]:
        """The comparisons that are made at one boundary, in the order of ``read``."""
        here = self._boundaries[place]
        for part, _ in here.leaving:
            for before in here.arriving:
                yield before, part
            if part == place and place >= 2:
                yield place - 2, part  # over a sentence that was put in
        yield from here.seams

    def read(self, worth: Iterator[NDArray[np.float64]]) -> Iterator[NDArray[np.float64]]:
        """The logarithm of the summed ratio, as n - 1 increments that add up to it.

        Args:
            worth: of each step in turn, its log-likelihood ratio under k keys, (k,).

        Yields:
            n - 1 times (k,): by how much each sentence behind the first changes the logarithm of
            the ratio of the text so far.
        """
        inserted = float(np.log(INSERTED))
        mass: dict[int, NDArray[np.float64]] = {}  # of all readings up to and with a part
        told: NDArray[np.float64] = np.zeros(1)
        for place, (here, there) in enumerate(pairwise(self._boundaries)):
            for part, log_probability in here.leaving:
                ways = [mass[before] + next(worth) for before in here.arriving]
                if place == 0:
                    ways.append(np.zeros(1))
                elif part == place:
                    ways.append(
                        mass[place - 2] + inserted + next(worth)
                        if place >= 2
                        else np.array([inserted])
                    )
                mass[part] = log_probability + reduce(np.logaddexp, ways)
            for first, second in here.seams:
                mass[second] = mass.pop(first) + next(worth)
            if place:
                so_far = reduce(
                    np.logaddexp,
                    [mass[place - 1] + inserted, *(mass[part] for part in there.arriving)],
                )
                yield so_far - told
                told = so_far
                for part in self._boundaries[place - 1].arriving:  # nothing goes back so far
                    del mass[part]


def _with_probabilities(
    parts: Sequence[int], ends: Sequence[int], *, sentences: int
) -> tuple[tuple[int, float], ...]:
    """Parts that begin at one boundary, with log-probabilities; first the sentence as it stands.

    A part that ends within the sentence is one half of it; one that ends at the next boundary but
    one is two sentences.
    """
    halves = [part for part in parts[1:] if ends[part] > sentences]
    probabilities = {part: JOINED / len(halves) if part in halves else CUT for part in parts[1:]}
    whole = 1.0 - INSERTED - sum(probabilities.values())
    return tuple((part, float(np.log(probabilities.get(part, whole)))) for part in parts)
