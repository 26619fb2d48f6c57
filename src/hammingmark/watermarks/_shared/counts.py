"""Texts that are judged by a mean over their units: votes, or soft counts between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hammingmark.protocols import Alternatives, NullDistribution
from hammingmark.records import Evidence, UnitScore
from hammingmark.stats.compare import TextTest
from hammingmark.stats.nulls import KeyRandomization

DoubleArray = NDArray[np.float64]
Draws = Callable[[], Iterator[Mapping[str, DoubleArray]]]
Likelihood = Callable[[Mapping[str, DoubleArray]], DoubleArray]
"""How much more likely counts by statistic, (u, k) each, are in chosen units than in others."""


@dataclass(frozen=True)
class CountedText:
    """A text whose units each have a count between 0 and 1: a `ScoredText`.

    Attributes:
        mark: the method under its key.
        unit: what is scored, such as a sentence or a transition.
        scores: what the rule compares with its threshold, (u,).
        threshold: the smallest score of a valid unit.
        max_score: the largest possible score.
        counts: by statistic, (u,).
        expected: γ, the mean count of a unit in unmarked text, by the method's paper.
        weight: the number of independent votes in a unit.
        draws: starts an iterator over blocks of counts under reference keys, by statistic, (u, k);
            None if the method has no key.
        null: the null distribution if the method has no key.
        context_units: see `Evidence`.
        free: the share of the units of marked text that were never constrained; None if it is not
            known how the others were chosen. It serves to estimate the power.
        likelihood: how they were chosen; by default all of them are valid.
        begins_text: whether the first unit is the first sentence of the text.
    """

    mark: object
    unit: str
    scores: NDArray[np.float32]
    threshold: float
    max_score: float
    counts: Mapping[str, DoubleArray]
    expected: float
    weight: int = 1
    draws: Draws | None = None
    null: NullDistribution | None = None
    context_units: int | None = None
    free: float | None = None
    likelihood: Likelihood | None = None
    begins_text: bool = False
    test_given_topic = None

    @property
    def evidence(self) -> Evidence:
        """Scores, their mean counts, and the z of each statistic."""
        if not len(self.scores):
            return Evidence(self.unit, (), self.max_score, self.threshold)
        valid = self.scores >= np.float32(self.threshold)
        means = {name: float(counts.mean()) for name, counts in self.counts.items()}
        weight = self.weight
        return Evidence(
            self.unit,
            tuple(
                UnitScore(float(score), bool(is_valid))
                for score, is_valid in zip(self.scores, valid, strict=True)
            ),
            self.max_score,
            self.threshold,
            means=means,
            context_units=self.context_units,
            z={n: z_score(c, self.expected, weight=weight) for n, c in self.counts.items()},
        )

    def test(self, statistic: str) -> TextTest:
        """The test over keys, or by ``null`` if the method has no key."""
        own = self.counts[statistic]
        null = self.null or KeyRandomization(partial(self._blocks, statistic))
        # Windows are compared from halfway between the mean of unmarked text and 1.
        centre = np.full_like(own, (1.0 + self.expected) / 2.0)
        known = self.free is not None and self.draws is not None
        as_written = partial(self._ratios, statistic) if known else None
        alternatives = Alternatives(as_written=as_written)
        return TextTest(own, np.ones_like(own), centre, null, alternatives=alternatives)

    def _blocks(self, statistic: str) -> Iterator[Iterator[DoubleArray]]:
        assert self.draws is not None
        return (iter([block[statistic]]) for block in self.draws())

    def _ratios(self, statistic: str) -> Iterator[Iterator[DoubleArray]]:
        assert self.draws is not None
        return (iter([self._log_ratios(block, statistic)]) for block in self.draws())

    def _log_ratios(self, block: Mapping[str, DoubleArray], statistic: str) -> DoubleArray:
        """The log-likelihood ratio of units that were all chosen unless they were free.

        The first sentence of a text counts as free, as that of an answer in a chat is.
        """
        assert self.free is not None
        chosen = self.likelihood(block) if self.likelihood else block[statistic] / self.expected
        ratios: DoubleArray = np.log(self.free + (1.0 - self.free) * chosen)
        if self.begins_text:
            ratios[0] = 0.0
        return ratios


def z_score(counts: DoubleArray, expected: float, *, weight: int = 1) -> float:
    """(h - γ n) / √(n γ (1 - γ)), h the sum of n counts: (u,), each of ``weight`` votes."""
    n = weight * len(counts)
    excess = weight * float(counts.sum()) - expected * n
    return excess / math.sqrt(n * expected * (1.0 - expected))


def random_masks(uniforms: DoubleArray, size: int) -> NDArray[np.bool_]:
    """Random sets of ``size`` members, the smallest uniforms along the last axis: (..., n) to same.

    ``size`` must lie between 1 and n.
    """
    edge = np.partition(uniforms, size - 1, axis=-1)[..., size - 1 : size]
    masks: NDArray[np.bool_] = uniforms <= edge
    return masks
