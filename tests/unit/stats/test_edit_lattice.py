"""Readings of an edited text: the forward sum against every chain written out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammingmark.stats import edit_lattice
from hammingmark.stats.edit_lattice import CUT, INSERTED, JOINED, EditLattice


def lay_out(n: int, seams: list[int]) -> tuple[list[int], list[int]]:
    """Joints of n sentences, of which sentence i has ``seams[i]`` seams, with all unions."""
    begins, ends = list(range(n)), list(range(1, n + 1))
    joint = n
    for place, count in enumerate(seams):
        for _ in range(count):
            joint += 1
            begins += [place, joint]
            ends += [joint, place + 1]
    begins += range(n - 1)
    ends += range(2, n + 1)
    return begins, ends


def chains(n: int, begins: list[int], ends: list[int]) -> Iterator[tuple[list[int], float]]:
    """Every reading as the parts it compares in turn, and its chance."""

    def go(
        place: int, parts: list[int], skipped: bool, chance: float
    ) -> Iterator[tuple[list[int], float]]:
        if place == n:
            yield parts, chance
            return
        here = [p for p, begin in enumerate(begins) if begin == place]
        halves = [p for p in here if ends[p] > n]
        unions = [p for p in here if ends[p] == place + 2 <= n]
        whole = 1 - INSERTED - (JOINED if halves else 0) - CUT * len(unions)
        if not skipped or parts[-1:] == [place - 2] or not parts:  # over it to a whole one only
            yield from go(place + 1, [*parts, place], False, chance * whole)
        if not skipped:
            for first in halves:
                (second,) = (p for p, begin in enumerate(begins) if begin == ends[first])
                share = chance * JOINED / len(halves)
                yield from go(place + 1, [*parts, first, second], False, share)
            for union in unions:
                yield from go(place + 2, [*parts, union], False, chance * CUT)
            if parts[-1:] == [place - 1] or place == 0:  # only a whole sentence is kept in mind
                yield from go(place + 1, parts, True, chance * INSERTED)

    yield from go(0, [], False, 1.0)


@settings(max_examples=40, deadline=None)
@given(seams=st.lists(st.integers(0, 2), min_size=2, max_size=5), seed=st.integers(0, 1000))
def test_the_forward_sum_is_the_sum_over_all_readings(seams: list[int], seed: int) -> None:
    n = len(seams)
    begins, ends = lay_out(n, seams)
    lattice = EditLattice(begins, ends, sentences=n)
    worth = np.random.default_rng(seed).normal(size=(len(lattice.before), 3))
    of = {(int(a), int(b)): w for a, b, w in zip(lattice.before, lattice.after, worth, strict=True)}
    increments = list(lattice.read(iter(worth)))
    assert len(increments) == n - 1
    total = np.zeros(3)
    for parts, chance in chains(n, begins, ends):
        total += chance * np.exp(sum((of[a, b] for a, b in pairwise(parts)), np.zeros(3)))
    assert np.sum(increments, axis=0) == pytest.approx(np.log(total))


def test_chances_add_up_to_nearly_one_and_no_reading_is_counted_twice() -> None:
    begins, ends = lay_out(4, [1, 0, 2, 1])
    lattice = EditLattice(begins, ends, sentences=4)
    total = sum(lattice.read(iter(np.zeros((len(lattice.before), 1)))))
    # What is missing are readings that step over a sentence from or to a part of one.
    assert -0.1 < float(total[0]) <= 0.0
    every = list(chains(4, begins, ends))
    assert len({(*parts, chance) for parts, chance in every}) == len(every)


def test_a_text_that_nobody_edits_is_read_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit_lattice, "INSERTED", 1e-12)
    lattice = EditLattice(range(6), range(1, 7), sentences=6)
    plain = [
        i for i, (a, b) in enumerate(zip(lattice.before, lattice.after, strict=True)) if b == a + 1
    ]
    worth = np.random.default_rng(3).normal(size=(len(lattice.before), 2))
    assert np.stack(list(lattice.read(iter(worth)))) == pytest.approx(worth[plain])


def test_two_sentences_that_were_joined_are_found_again() -> None:
    begins, ends = lay_out(3, [0, 1, 0])
    lattice = EditLattice(begins, ends, sentences=3)
    joined = {(0, 3), (3, 4), (4, 2)}  # the halves of the second sentence, and what stands around
    worth = [
        [2.0] if (a, b) in joined else [-2.0]
        for a, b in zip(lattice.before, lattice.after, strict=True)
    ]
    total = float(sum(lattice.read(iter(np.array(worth))))[0])
    assert total > math.log(JOINED) + 6.0 - 0.5  # three ties, less what the doubt costs
