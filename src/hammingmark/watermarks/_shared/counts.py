"""Texts that are judged by a mean over their units: votes, or soft counts between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hammingmark.protocols import NullDistribution
from hammingmark.records import Evidence, UnitScore
from hammingmark.stats.compare import TextTest
from hammingmark.stats.nulls import KeyRandomization

DoubleArray = NDArray[np.float64]
Draws = Callable[[], Iterator[Mapping[str, DoubleArray]]]


@dataclass(frozen=True)
class CountedText:
    """A text whose units each count for something between 0 and 1: a `ScoredText`.

    Attributes:
        mark: the method under its key.
        unit: what is scored.
        scores: what the rule compares with its threshold, (u,).
        threshold: from which a unit is valid.
        scale: the largest score.
        counts: by statistic, (u,).
        expected: γ, the mean count of a unit in unmarked text, by the method's paper.
        weight: how many independent votes a unit stands for.
        draws: begins block after block of counts under reference keys, by statistic, (u, k);
            None where the method has no key.
        null: the null distribution where it has none.
        rests_on: see `Evidence`.
    """

    mark: object
    unit: str
    scores: NDArray[np.float32]
    threshold: float
    scale: float
    counts: Mapping[str, DoubleArray]
    expected: float
    weight: int = 1
    draws: Draws | None = None
    null: NullDistribution | None = None
    rests_on: int | None = None
    test_given_topic = None

    @property
    def evidence(self) -> Evidence:
        """Scores, their mean counts, and the z of each statistic."""
        if not len(self.scores):
            return Evidence(self.unit, (), self.scale, self.threshold)
        enough = self.scores >= np.float32(self.threshold)
        means = {name: float(counts.mean()) for name, counts in self.counts.items()}
        weight = self.weight
        return Evidence(
            self.unit,
            tuple(
                UnitScore(float(score), bool(valid))
                for score, valid in zip(self.scores, enough, strict=True)
            ),
            self.scale,
            self.threshold,
            means=means,
            context_units=self.rests_on,
            z={n: z_score(c, self.expected, weight=weight) for n, c in self.counts.items()},
        )

    def test(self, statistic: str) -> TextTest:
        """The test over keys, or the method's own where it has none."""
        own = self.counts[statistic]
        null = self.null or KeyRandomization(partial(self._blocks, statistic))
        # Between the mean of unmarked text and 1, which windows are compared from.
        centre = np.full_like(own, (1.0 + self.expected) / 2.0)
        return TextTest(own, np.ones_like(own), centre, null)

    def _blocks(self, statistic: str) -> Iterator[Iterator[DoubleArray]]:
        assert self.draws is not None
        return (iter([block[statistic]]) for block in self.draws())


def z_score(counts: DoubleArray, expected: float, *, weight: int = 1) -> float:
    """(h - γ n) / √(n γ (1 - γ)), h the sum of n counts: (u,), each of ``weight`` votes."""
    n = weight * len(counts)
    excess = weight * float(counts.sum()) - expected * n
    return excess / math.sqrt(n * expected * (1.0 - expected))


def random_masks(uniforms: DoubleArray, size: int) -> NDArray[np.bool_]:
    """Sets of ``size`` members each, from uniforms along the last axis: the smallest are in.

    ``size`` is at least 1, and at most as many as there are.
    """
    edge = np.partition(uniforms, size - 1, axis=-1)[..., size - 1 : size]
    masks: NDArray[np.bool_] = uniforms <= edge
    return masks
