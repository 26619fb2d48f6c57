"""What the scores of a text say for or against a mark, and what those of marked texts look like.

A marked sentence had a score of at least T when it was written. Since then it may have been
reworded: a score y has become z = r y + √(1 - r²) ε. Given the text's earlier scores, let z be
normal with mean μ and standard deviation σ under the null (``triangular.py``). Then y given z is
normal around r z, and by Bayes' rule the likelihood ratio of z is

    P(y >= T | z) / P(y >= T | μ, σ)  =  Φ((r z - T) / √(1 - r²)) / Φ((r μ - T) / √(r²σ² + 1 - r²))

which for r = 1 is 1 or 0 over the probability to be accepted, and for r = 0 is 1: the sentence was
never constrained. What became of a text is not known, and may differ from place to place in it. So
each sentence has one of several histories, which the next one mostly shares; the ratio of a
sentence is averaged over them by what the earlier ones make of each. The ratios of a text multiply
to a martingale of mean 1 under the null.
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
    Alternative(edited=1.0, kept=0.7, free=0.1),
    Alternative(edited=0.5, free=0.5),
)
"""As written; partly edited; put into other words, as by translation; written anew by a model; half
of its sentences from elsewhere."""

CHANGES = 0.02
"""The probability that a sentence has another history than the one before."""


@dataclass(frozen=True)
class MarkedScores:
    """The scores of one text, under one key or many that share their covariance.

    Attributes:
        threshold: T.
        lower: L, (n, n).
        counted: which scores count, (n,); the others say nothing.
        histories: what may have become of a sentence.
    """

    threshold: float
    lower: DoubleArray
    counted: NDArray[np.bool_]
    histories: Sequence[Alternative] = HISTORIES

    def log_ratios(self, scores: DoubleArray) -> DoubleArray:
        """What each score adds to the log-likelihood ratio of a text: z (n, k) to (n, k)."""
        return self._along(scores.shape[1], lambda t, mean, deviation, belief: scores[t])

    def draw(self, marked: NDArray[np.bool_], uniforms: DoubleArray) -> DoubleArray:
        """The same for scores that are drawn.

        Args:
            marked: which of them are drawn as those of marked text, (n, k), and not of any other.
            uniforms: deviates to draw them with, (n, 3, k).
        """

        def drawn(t: int, mean: DoubleArray, deviation: float, belief: DoubleArray) -> DoubleArray:
            which, first, second = uniforms[t]
            shares = np.cumsum(np.einsum("hj,hk->jk", self._shares, belief), axis=0)
            kind = np.minimum((which >= shares).sum(axis=0), len(shares) - 1)
            r = np.where(marked[t], self._kept[kind], 0.0)
            left = 1.0 - r * r
            variance = r * r * deviation * deviation + left  # of y
            spread = np.sqrt(variance)
            least = log_tail((self.threshold - r * mean) / spread)
            written = spread * tail_quantile(np.log(first) + least)  # y - r μ
            noise = deviation * np.sqrt(left / variance) * tail_quantile(np.log(second))
            score: DoubleArray = mean + r * deviation * deviation / variance * written + noise
            return score

        return self._along(marked.shape[1], drawn)

    def _along(
        self, k: int, score: Callable[[int, DoubleArray, float, DoubleArray], DoubleArray]
    ) -> DoubleArray:
        """Sentence by sentence, given each one's mean, deviation and what history is likely."""
        deviates = np.zeros((len(self.lower), k))
        told = np.zeros_like(deviates)
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
            told[t] = np.log(total)
            belief = (1.0 - CHANGES) * ratios / total + CHANGES / count
        return told

    def _ratios(self, scores: DoubleArray, mean: DoubleArray, deviation: float) -> DoubleArray:
        """The likelihood ratio of scores (k,) for each r: (j, k)."""
        ratios = np.ones((len(self._kept), len(scores)))
        accepted = log_tail((self.threshold - mean) / deviation)
        ratios[1] = np.where(scores >= self.threshold, np.exp(-accepted), 0.0)
        r = self._kept[2:, None]
        left = np.sqrt(1.0 - r * r)
        spread = np.sqrt(r * r * deviation * deviation + 1.0 - r * r)
        ratios[2:] = np.exp(
            log_tail((self.threshold - r * scores) / left)
            - log_tail((self.threshold - r * mean) / spread)
        )
        return ratios

    @cached_property
    def _kept(self) -> DoubleArray:
        """The correlations r: 0 of a sentence never constrained, 1 of one as written, others."""
        return np.array([0.0, 1.0, *sorted({each.kept for each in self.histories})])

    @cached_property
    def _shares(self) -> DoubleArray:
        """How probable each of them is under each history, (h, j)."""
        shares = np.zeros((len(self.histories), len(self._kept)))
        for row, each in zip(shares, self.histories, strict=True):
            row[0] = each.free
            row[1] = (1.0 - each.free) * (1.0 - each.edited)
            row[np.searchsorted(self._kept[2:], each.kept) + 2] = (1.0 - each.free) * each.edited
        return shares


def passage_log_ratio(told: DoubleArray, ends: float) -> DoubleArray:
    """The log-likelihood ratio of one marked passage that may begin at any of n sentences.

    Each sentence after its first belongs to it, too, with probability 1 - ``ends``. (n, k) to (k,).
    """
    begins = -math.log(len(told))
    going = np.full(told.shape[1], -np.inf)
    ended = np.full(told.shape[1], -np.inf)
    for increments in told:
        ended = np.logaddexp(ended, math.log(ends) + going)
        going = increments + np.logaddexp(going + math.log1p(-ends), begins)
    ratio: DoubleArray = np.logaddexp(ended, going)
    return ratio
