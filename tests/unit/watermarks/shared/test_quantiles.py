"""The Harrell-Davis median, compared with scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta
from scipy.stats.mstats import hdmedian

from hammingmark.watermarks._shared.channels import harrell_davis_median, harrell_davis_weights


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 16, 31, 64, 100, 257, 1024])
def test_weights_are_those_of_the_beta_distribution(n: int) -> None:
    edges = beta.cdf(np.arange(n + 1) / n, (n + 1) / 2, (n + 1) / 2)
    weights = harrell_davis_weights(n)
    np.testing.assert_allclose(weights, np.diff(edges), rtol=0, atol=1e-12)
    assert weights.sum() == pytest.approx(1.0, abs=1e-10)
    np.testing.assert_array_equal(weights, weights[::-1])


@pytest.mark.parametrize("n", [2, 3, 7, 8, 63, 64, 500])
def test_medians_are_those_of_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    for scale in (1e-3, 1.0, 50.0):
        values = rng.standard_normal(n) * scale + rng.normal()
        expected = float(hdmedian(values))
        assert harrell_davis_median(values) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_equal_values_are_their_own_median() -> None:
    for n in (1, 2, 3, 64, 301):
        value = 0.1 + 0.2
        assert harrell_davis_median(np.full(n, value)) == value


def test_the_order_of_the_values_does_not_matter() -> None:
    values = np.random.default_rng(1).standard_normal(64)
    assert harrell_davis_median(values) == harrell_davis_median(values[::-1])


def test_nobody_can_change_the_weights() -> None:
    with pytest.raises(ValueError, match="read-only"):
        harrell_davis_weights(4)[0] = 1.0
