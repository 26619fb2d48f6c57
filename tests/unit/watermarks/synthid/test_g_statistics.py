"""Statistics of g-values: their values, and their distributions in unmarked text."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from hammingmark.watermarks.synthid.g_statistics import (
    PARTS,
    GStatistic,
    LikelihoodRatio,
    WeightedMean,
    falling_weights,
)

LEVEL, SLOPE = np.linspace(0.8, -1.0, 8), np.linspace(0.0, 0.3, 8)
EVERY = np.array(list(product((0, 1), repeat=8)))
"""All g-values of a token at eight depths."""


def mean(depth: int, share: float = 0.5) -> WeightedMean:
    return WeightedMean(np.ones(depth, np.int64), parts=depth, share=share, excess=0.1)


def weighted(depth: int, share: float = 0.5) -> WeightedMean:
    return WeightedMean(falling_weights(depth), parts=PARTS, share=share, excess=0.1)


def test_the_mean_is_binomial() -> None:
    bits = np.random.default_rng(0).integers(0, 2, size=(40, 30))
    statistic = mean(30)
    np.testing.assert_allclose(statistic.of(bits), bits.mean(axis=1), atol=1e-12)
    for n, ones in ((1, 20), (40, 640), (200, 3200)):
        tail = statistic.increments.survival(n, ones / 30)
        assert tail == pytest.approx(stats.binom.sf(ones - 1, 30 * n, 0.5), rel=1e-6)


def test_the_weighted_mean_is_that_of_falling_weights() -> None:
    bits = np.random.default_rng(1).integers(0, 2, size=(5, 40, 30))
    weights = np.linspace(10.0, 1.0, 30)
    actual = weighted(30).of(bits)
    assert actual.shape == (5, 40)
    assert np.abs(actual - bits @ weights / weights.sum()).max() <= 0.5 / PARTS + 1e-12
    np.testing.assert_array_equal(actual * PARTS, np.rint(actual * PARTS))
    assert weighted(30).of(np.ones((1, 30), np.int64))[0] == 1.0
    assert weighted(1).of(np.array([[1], [0]])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("share", [0.5, 0.45])
@pytest.mark.parametrize(
    "make", [mean, weighted, lambda depth, share: LikelihoodRatio(LEVEL, SLOPE, share=share)]
)
def test_distributions_are_those_of_counting_every_outcome(make: object, share: float) -> None:
    statistic: GStatistic = make(8, share)  # type: ignore[operator]
    values = statistic.of(EVERY)
    likely = np.prod(np.where(EVERY == 1, share, 1.0 - share), axis=1)
    for score in np.unique(values):
        expected = likely[values >= score - 1e-9].sum()
        assert statistic.increments.survival(1, score) == pytest.approx(expected, rel=1e-9)
    average, variance = statistic.increments.moments
    assert average == pytest.approx(likely @ values)
    assert variance == pytest.approx(likely @ (values - average) ** 2)
    assert statistic.increments.best == pytest.approx(values.max())


def test_the_ratio_is_that_of_the_likelihood() -> None:
    """The published detector, with one slope for all earlier depths."""
    bits = np.random.default_rng(2).integers(0, 2, size=(60, 8))
    expected = np.zeros(60)
    for row, token in enumerate(bits):
        for depth, bit in enumerate(token):
            logit = LEVEL[depth] + SLOPE[depth] * (token[:depth] - 0.5).sum()
            two = 1.0 / (1.0 + np.exp(-logit))
            expected[row] += np.log(0.5 * ((bit + 0.5) * two + (1.0 - two)) / 0.5)
    actual = LikelihoodRatio(LEVEL, SLOPE, share=0.5).of(bits)
    assert np.abs(actual - expected).max() < 0.5 / 16 + 8 * 0.5 / 1024 + 1e-9
    assert actual.std() > 0.3


def test_ratios_are_one_on_average_where_no_mark_is() -> None:
    """Except for rounding, their exponentials are likelihood ratios."""
    values = LikelihoodRatio(LEVEL, SLOPE, share=0.5).of(EVERY)
    assert np.exp(values).mean() == pytest.approx(1.0, abs=0.01)


def test_windows_are_compared_from_between_the_two_kinds_of_text() -> None:
    assert 0.5 < weighted(30).centre < 0.6
    assert (weighted(30).centre * PARTS).is_integer()
    assert LikelihoodRatio(LEVEL, SLOPE, share=0.5).centre == 0.0
