"""Texts that are scored token by token."""

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
    """A text whose tokens, except for the first few, each have a score: a `ScoredText`.

    Attributes:
        mark: the method under its key.
        scores: what the rule compares with its threshold, (u,).
        threshold: the smallest score of a valid token.
        max_score: the largest possible score.
        tests: by statistic.
        counted: which tokens count for the first statistic, (u,); the others are repeated in the
            same context.
        z: by statistic.
        ratios: the statistics that are sums of log-likelihood ratios; the others are means.
    """

    mark: object
    scores: NDArray[np.float32]
    threshold: float
    max_score: float
    tests: Mapping[str, TextTest]
    counted: NDArray[np.bool_]
    z: Mapping[str, float] = field(default_factory=dict)
    ratios: Collection[str] = ()
    test_given_topic = None

    @property
    def evidence(self) -> Evidence:
        """Scores, their statistics and z."""
        if not len(self.scores):
            return Evidence("token", (), self.max_score, self.threshold)
        valid = self.scores >= np.float32(self.threshold)
        return Evidence(
            "token",
            tuple(
                UnitScore(float(score), bool(is_valid), counted=bool(counts))
                for score, is_valid, counts in zip(self.scores, valid, self.counted, strict=True)
            ),
            self.max_score,
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
    """Which rows (u, w) are first occurrences: (u,)."""
    first = np.zeros(len(grams), np.bool_)
    if len(grams):
        _, places = np.unique(grams, axis=0, return_index=True)
        first[places] = True
    return first


def windows(tokens: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Every run of ``width`` tokens, (n - width + 1, width); none in a shorter text."""
    if len(tokens) < width:
        return np.empty((0, width), np.int64)
    return np.lib.stride_tricks.sliding_window_view(tokens.astype(np.int64), width)


FREEDOM = 0.6
"""The share of the possible shift of probability that a mark achieves in real text.

It is below 1, because many tokens leave the model little choice: between 0.6 and 0.9 in texts of
the default model, which leaves more choice than larger models do.
"""


def marked_share(natural: float, most: float) -> float:
    """The expected share of valid tokens in marked text.

    Args:
        natural: the probability of a valid token in unmarked text.
        most: its probability in marked text if all tokens were equally likely.
    """
    return natural + FREEDOM * (most - natural)


def log_odds(marked: float, natural: float) -> float:
    """The increase of the log-odds of a valid token."""
    return math.log(marked / (1.0 - marked)) - math.log(natural / (1.0 - natural))
