"""The likelihood ratio of a text's scores, and draws of marked scores."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.unit.watermarks.bilinear.test_triangular import correlated

from hammingmark.watermarks.bilinear.deviates import Alternative
from hammingmark.watermarks.bilinear.marked_scores import MarkedScores, passage_log_ratio
from hammingmark.watermarks.bilinear.scores import triangular_factor

T = 0.6
WRITTEN = Alternative(free=1e-9, edited=0.0)
TRANSLATED = Alternative(free=0.1, edited=0.7, correlation=0.8)


def scores_of(n: int, *histories: Alternative, seed: int = 1) -> MarkedScores:
    factor = triangular_factor(correlated(n, 20 + 4 * n, np.random.default_rng(seed)))
    return MarkedScores(T, *factor, histories) if histories else MarkedScores(T, *factor)


def unmarked(scores: MarkedScores, count: int, seed: int = 2) -> NDArray[np.float64]:
    n = len(scores.lower)
    drawn: NDArray[np.float64] = scores.lower @ np.random.default_rng(seed).standard_normal(
        (n, count)
    )
    return drawn


def test_a_text_as_written_is_worth_one_over_its_probability() -> None:
    """The probabilities of two correlated scores, by scipy."""
    scores = scores_of(2, WRITTEN)
    increments = scores.log_ratios(np.array([[T + 0.3, T + 2.0, T - 0.1], [T + 0.1, T, T + 1.0]]))
    first = stats.norm.sf(T)
    assert increments[0, :2] == pytest.approx(-np.log(first), rel=1e-6)
    assert increments[0, 2] < -15.0, "never constrained"
    mean, deviation = scores.lower[1, 0] * (T + 0.3), scores.lower[1, 1]
    assert increments[1, 0] == pytest.approx(
        -np.log(stats.norm.sf((T - mean) / deviation)), rel=1e-6
    )


def test_the_ratio_of_one_score_is_bayes_rule() -> None:
    """P(y >= T | z) and P(y >= T), by numerical integration over the original score."""
    z, r = 0.4, TRANSLATED.correlation
    y = np.linspace(T, 12.0, 200_001)
    joint = stats.norm.pdf(y) * stats.norm.pdf(z, r * y, np.sqrt(1 - r * r))
    reworded = np.trapezoid(joint, y) / stats.norm.pdf(z) / stats.norm.sf(T)
    expected = np.log(0.1 + 0.9 * 0.7 * reworded)  # as written it would have been at least T
    actual = scores_of(1, TRANSLATED).log_ratios(np.array([[z]]))[0, 0]
    assert actual == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("histories", [(), (TRANSLATED,), (WRITTEN, TRANSLATED)])
def test_ratios_are_a_martingale_of_mean_one_under_the_null(
    histories: tuple[Alternative, ...],
) -> None:
    """For every prefix of the text; within four standard errors of the draws."""
    scores = scores_of(4, *histories)
    increments = scores.log_ratios(unmarked(scores, 60_000))
    ratios = np.exp(np.cumsum(increments, axis=0))
    errors = ratios.std(axis=1) / np.sqrt(ratios.shape[1])
    assert (np.abs(ratios.mean(axis=1) - 1.0) < 4 * errors).all()


@pytest.mark.parametrize("histories", [(), (TRANSLATED,)])
def test_marked_draws_weighed_by_one_over_their_ratio_are_unmarked(
    histories: tuple[Alternative, ...],
) -> None:
    """The distribution of the log-likelihood ratio by draws from both; four standard errors."""
    scores, count = scores_of(4, *histories), 30_000
    rng = np.random.default_rng(3)
    drawn = scores.draw(np.ones((4, count), bool), rng.random((4, 3, count))).sum(axis=0)
    plain = scores.log_ratios(unmarked(scores, count)).sum(axis=0)
    direct = scores.draw(np.zeros((4, count), bool), rng.random((4, 3, count))).sum(axis=0)
    for level in (-2.0, 0.0, 1.0, 2.0):
        weighed = np.exp(-drawn) * (drawn >= level)
        error = weighed.std() / np.sqrt(count)
        for other in (plain, direct):
            share = (other >= level).mean()
            spread = np.sqrt(error**2 + share * (1 - share) / count)
            assert abs(weighed.mean() - share) < 4 * spread
    assert drawn.mean() > 1.0 > plain.mean(), "marked texts look marked"


def test_a_text_that_was_translated_throughout_is_told_from_one_as_written() -> None:
    """Its later sentences are scored by the histories that the earlier ones make likely."""
    scores = MarkedScores(T, np.eye(12), np.ones(12, bool), (WRITTEN, TRANSLATED))
    below = scores.log_ratios(np.full((12, 1), T - 0.2))[:, 0]
    above = scores.log_ratios(np.full((12, 1), T + 0.2))[:, 0]
    assert below[0] < below[1] - 0.2, "the first may be as written"
    assert above[-1] > above[0], "the last is as written in all likelihood"
    changed = scores.log_ratios(np.r_[np.full(11, T + 0.2), T - 0.2][:, None])[-1, 0]
    assert changed < below[0] - 1.0


def test_scores_that_do_not_count_say_nothing() -> None:
    scores = MarkedScores(T, np.eye(3), np.array([True, False, True]))
    increments = scores.log_ratios(np.full((3, 2), 2.0))
    assert not increments[1].any()
    assert (increments[[0, 2]] > 0.5).all()
    drawn = scores.draw(np.ones((3, 5), bool), np.random.default_rng(1).random((3, 3, 5)))
    assert not drawn[1].any()


def test_the_ratio_of_a_passage_is_the_mean_over_all_of_them() -> None:
    increments, ends = np.random.default_rng(5).normal(size=(6, 2)), 0.3
    expected = np.zeros(2)
    for begin in range(6):
        for end in range(begin + 1, 7):
            length = end - begin
            chance = (1 - ends) ** (length - 1) * (ends if end < 6 else 1.0)
            expected += chance / 6 * np.exp(increments[begin:end].sum(axis=0))
    np.testing.assert_allclose(passage_log_ratio(increments, ends), np.log(expected))
