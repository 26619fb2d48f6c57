"""One p-value for a whole text and its best passage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hammingmark.stats.joint import either, joint_p_value, tails


def test_a_tail_is_the_weight_that_reaches_a_score() -> None:
    scores, weights = np.array([2.0, 1.0, 3.0, 2.0]), np.array([1.0, 10.0, 0.5, 3.0])
    assert tails(scores, weights).tolist() == [4.5, 14.5, 0.5, 4.5]


def test_the_smaller_of_two_p_values_is_compared_with_that_of_the_draws() -> None:
    # The tails of the whole are 1 2 3 4 5 in fifths, those of the window 5 1 2 3 4.
    whole, window = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), np.array([1.0, 5.0, 4.0, 3.0, 2.0])
    ones = np.ones(5)
    assert joint_p_value(whole, window, ones) == pytest.approx(2 / 5)
    assert joint_p_value(whole, whole, ones) == pytest.approx(1 / 5), "two equal tests cost nothing"


def test_two_tests_cost_a_factor_between_one_and_two() -> None:
    rng = np.random.default_rng(0)
    for correlation in (0.0, 0.6, 0.999):
        whole, other = rng.standard_normal((2, 500))
        window = correlation * whole + np.sqrt(1 - correlation**2) * other
        weights = rng.exponential(size=500)
        smaller = min(tails(scores, weights)[0] for scores in (whole, window)) / 500
        joint = joint_p_value(whole, window, weights)
        assert smaller <= joint * (1 + 1e-9)
        assert joint <= 2 * smaller * (1 + 1e-9)
        assert either(smaller, 1.0) == min(1.0, 2 * smaller)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_the_joint_p_value_is_uniform(correlation: float) -> None:
    """With draws like the text; a test fails by chance once in 10,000 runs for each level."""
    rng, count = np.random.default_rng(1), 4000
    found = []
    for _ in range(count):
        whole, other = rng.standard_normal((2, 100))
        window = correlation * whole + np.sqrt(1 - correlation**2) * other
        found.append(joint_p_value(whole, window, np.ones(100)))
    for level in (0.05, 0.2):
        reached = int((np.array(found) <= level).sum())
        assert reached <= stats.binom.isf(1e-4, count, level)
        assert reached >= stats.binom.ppf(1e-4, count, 0.7 * level), "and the test is not idle"


def test_scores_that_all_tie_are_no_evidence() -> None:
    assert joint_p_value(np.zeros(20), np.zeros(20), np.ones(20)) == 1.0
