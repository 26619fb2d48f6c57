"""Texts that are judged token by token."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hammingmark.records import Evidence, UnitScore
from hammingmark.stats.compare import TextTest


@dataclass(frozen=True)
class ScoredTokens:
    """A text whose tokens, but for the first few, each have a score: a `ScoredText`.

    Attributes:
        mark: the method under its key.
        scores: what the rule compares with its threshold, (u,).
        threshold: from which a token is valid.
        scale: the largest score.
        tests: by statistic.
        counted: which tokens count for the first statistic, (u,); the others came before, in the
            same context.
        z: by statistic.
        ratios: the statistics that are sums of log-likelihood ratios; the others are means.
    """

    mark: object
    scores: NDArray[np.float32]
    threshold: float
    scale: float
    tests: Mapping[str, TextTest]
    counted: NDArray[np.bool_]
    z: Mapping[str, float] = field(default_factory=dict)
    ratios: Collection[str] = ()
    test_given_topic = None

    @property
    def evidence(self) -> Evidence:
        """Scores, their statistics and z."""
        if not len(self.scores):
            return Evidence("token", (), self.scale, self.threshold)
        enough = self.scores >= np.float32(self.threshold)
        return Evidence(
            "token",
            tuple(
                UnitScore(float(score), bool(valid), counted=bool(counts))
                for score, valid, counts in zip(self.scores, enough, self.counted, strict=True)
            ),
            self.scale,
            self.threshold,
            means={n: mean_of(t) for n, t in self.tests.items() if n not in self.ratios},
            sums={n: float(t.increments.sum()) for n, t in self.tests.items() if n in self.ratios},
            z=self.z,
        )

    def test(self, statistic: str) -> TextTest:
        """The test by a statistic."""
        return self.tests[statistic]


def mean_of(test: TextTest) -> float:
    """A statistic's mean over the tokens that count."""
    return float(test.increments.sum()) / max(1, int(np.count_nonzero(test.best)))


def first_occurrences(grams: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the rows (u, w) have not come before: (u,)."""
    first = np.zeros(len(grams), np.bool_)
    if len(grams):
        _, places = np.unique(grams, axis=0, return_index=True)
        first[places] = True
    return first


def windows(tokens: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Every run of so many tokens, (n - width + 1, width); none in a shorter text."""
    if len(tokens) < width:
        return np.empty((0, width), np.int64)
    return np.lib.stride_tricks.sliding_window_view(tokens.astype(np.int64), width)


FREEDOM = 0.6
"""Share of what a mark could move that it does move: a model is not free in every token.

Between 0.6 and 0.9 in texts of the default model, which leaves more open than larger ones do.
"""


def marked_share(natural: float, most: float) -> float:
    """The share of valid tokens that is expected of marked text.

    Args:
        natural: the probability of a valid token where nothing is marked.
        most: the same where marked text may be anything, so that all tokens were equally likely.
    """
    return natural + FREEDOM * (most - natural)


def log_odds(marked: float, natural: float) -> float:
    """By how much the logarithm of the odds of a valid token rises."""
    return math.log(marked / (1.0 - marked)) - math.log(natural / (1.0 - natural))
