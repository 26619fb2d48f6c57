"""The likelihood ratio of a text's scores, and the distribution of marked scores.

A marked sentence had a score of at least T when it was written. Since then it may have been
reworded, which turns a score y into z = r y + √(1 - r²) ε. Given the text's earlier scores, let z
be normal with mean μ and standard deviation σ under the null (`scores.triangular_factor`). Then y
given z is normal around r z, and by Bayes' rule the likelihood ratio of z is

    P(y >= T | z) / P(y >= T | μ, σ)  =  Φ((r z - T) / √(1 - r²)) / Φ((r μ - T) / √(r²σ² + 1 - r²))

For r = 1 it is 1 or 0 over the probability of acceptance; for r = 0, a sentence that was never
constrained, it is 1. How a text was edited is unknown, and may differ along the text. So each
sentence has one of several histories, which it mostly shares with the next. The ratio of a sentence
is averaged over histories, weighted by their probabilities given the earlier sentences. The product
of a text's ratios is a martingale of mean 1 under the null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hammingmark.stats.normal import log_tail, tail_quantile
from hammingmark.watermarks.bilinear.deviates import Alternative

DoubleArray = NDArray[np.float64]

HISTORIES = (
    Alternative(edited=0.0),
    Alternative(edited=0.5),
    Alternative(edited=1.0),
    Alternative(edited=1.0, correlation=0.7, free=0.1),
    Alternative(edited=0.5, free=0.5),
)
"""As written; partly edited; reworded throughout, as by translation; rewritten by a model; half of
the sentences inserted from elsewhere."""

CHANGES = 0.02
"""The probability that a sentence has another history than the preceding one."""


@dataclass(frozen=True)
class MarkedScores:
    """The joint distribution of a text's scores, under keys that share their covariance.

    Attributes:
        threshold: T.
        lower: L, the triangular factor of the covariance, (n, n).
        counted: which scores count, (n,); the others carry no evidence.
        histories: how a sentence may have been edited.
    """

    threshold: float
    lower: DoubleArray
    counted: NDArray[np.bool_]
    histories: Sequence[Alternative] = HISTORIES

    def log_ratios(self, scores: DoubleArray) -> DoubleArray:
        """The increment of each score to the text's log-likelihood ratio: z (n, k) to (n, k)."""
        return self._along(scores.shape[1], lambda t, mean, deviation, belief: scores[t])

    def draw(self, marked: NDArray[np.bool_], uniforms: DoubleArray) -> DoubleArray:
        """The increments of random scores: (n, k).

        Args:
            marked: which scores are drawn from marked text and not from unmarked text, (n, k).
            uniforms: uniform deviates to draw them with, (n, 3, k).
        """

        def correlation(t: int, belief: DoubleArray) -> DoubleArray:
            shares = np.cumsum(np.einsum("hj,hk->jk", self._shares, belief), axis=0)
            kind = np.minimum((uniforms[t, 0] >= shares).sum(axis=0), len(shares) - 1)
            return np.where(marked[t], self._correlations[kind], 0.0)

        return self._drawn(correlation, uniforms[:, 1:])

    def draw_with(self, correlations: DoubleArray, uniforms: DoubleArray) -> DoubleArray:
        """The increments of random scores of which it is known what happened to them: (n, k).

        Args:
            correlations: r of each score, 0 if it was never constrained, (n, k).
            uniforms: uniform deviates to draw them with, (n, 2, k).
        """
        return self._drawn(lambda t, belief: correlations[t], uniforms)

    def _drawn(
        self, correlation: Callable[[int, DoubleArray], DoubleArray], uniforms: DoubleArray
    ) -> DoubleArray:
        """The increments of random scores, (n, k).

        Args:
            correlation: gives r of a sentence, (k,), from its number and the probabilities of its
                histories, (h, k).
            uniforms: uniform deviates to draw them with, (n, 2, k).
        """

        def draw_score(
            t: int, mean: DoubleArray, deviation: float, belief: DoubleArray
        ) -> DoubleArray:
            first, second = uniforms[t]
            r = correlation(t, belief)
            left = 1.0 - r * r
            variance = r * r * deviation * deviation + left  # of y
            spread = np.sqrt(variance)
            accepted = log_tail((self.threshold - r * mean) / spread)
            written = spread * tail_quantile(np.log(first) + accepted)  # y - r μ
            noise = deviation * np.sqrt(left / variance) * tail_quantile(np.log(second))
            score: DoubleArray = mean + r * deviation * deviation / variance * written + noise
            return score

        return self._along(uniforms.shape[2], draw_score)

    def _along(
        self, k: int, score: Callable[[int, DoubleArray, float, DoubleArray], DoubleArray]
    ) -> DoubleArray:
        """Increments, (n, k), sentence by sentence.

        Args:
            k: the number of keys or draws.
            score: gives the scores (k,) of a sentence from its number, their mean (k,) and standard
                deviation given the earlier scores, and the probabilities of its histories (h, k).
        """
        deviates = np.zeros((len(self.lower), k))
        increments = np.zeros_like(deviates)
        count = len(self.histories)
        belief = np.full((count, k), 1.0 / count)
        for t in np.flatnonzero(self.counted):
            mean = np.einsum("s,sk->k", self.lower[t, :t], deviates[:t])
            deviation = float(self.lower[t, t])
            scores = score(int(t), mean, deviation, belief)
            deviates[t] = (scores - mean) / deviation
            ratios = belief * np.einsum(
                "hj,jk->hk", self._shares, self._ratios(scores, mean, deviation)
            )
            total = ratios.sum(axis=0)
            increments[t] = np.log(total)
            belief = (1.0 - CHANGES) * ratios / total + CHANGES / count
        return increments

    def _ratios(self, scores: DoubleArray, mean: DoubleArray, deviation: float) -> DoubleArray:
        """The likelihood ratio of scores (k,) for each r: (j, k)."""
        ratios = np.ones((len(self._correlations), len(scores)))
        accepted = log_tail((self.threshold - mean) / deviation)
        ratios[1] = np.where(scores >= self.threshold, np.exp(-accepted), 0.0)
        r = self._correlations[2:, None]
        left = np.sqrt(1.0 - r * r)
        spread = np.sqrt(r * r * deviation * deviation + 1.0 - r * r)
        ratios[2:] = np.exp(
            log_tail((self.threshold - r * scores) / left)
            - log_tail((self.threshold - r * mean) / spread)
        )
        return ratios

    @cached_property
    def _correlations(self) -> DoubleArray:
        """The correlations r, (j,): 0 if never constrained, 1 as written, then those of edits."""
        return np.array([0.0, 1.0, *sorted({history.correlation for history in self.histories})])

    @cached_property
    def _shares(self) -> DoubleArray:
        """The probability of each correlation under each history, (h, j)."""
        shares = np.zeros((len(self.histories), len(self._correlations)))
        for row, history in zip(shares, self.histories, strict=True):
            constrained = 1.0 - history.free
            row[0] = history.free
            row[1] = constrained * (1.0 - history.edited)
            row[np.searchsorted(self._correlations[2:], history.correlation) + 2] = (
                constrained * history.edited
            )
        return shares


def passage_log_ratio(increments: DoubleArray, ends: float) -> DoubleArray:
    """The log-likelihood ratio of one marked passage: (n, k) to (k,).

    The passage may begin at any of the n sentences, and ends after each of its sentences with
    probability ``ends``.
    """
    begins = -math.log(len(increments))
    inside = np.full(increments.shape[1], -np.inf)
    after = np.full(increments.shape[1], -np.inf)
    for increment in increments:
        after = np.logaddexp(after, math.log(ends) + inside)
        inside = increment + np.logaddexp(inside + math.log1p(-ends), begins)
    ratio: DoubleArray = np.logaddexp(after, inside)
    return ratio
