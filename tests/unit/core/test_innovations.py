"""Correlated normal scores to independent ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hammingmark.core.innovations import LEAST, innovations


def correlated(n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The Gram matrix (n, n) of unit rows that have a topic in common: a covariance."""
    rows = rng.standard_normal((n, d)) + rng.standard_normal(d)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    gram: NDArray[np.float64] = rows @ rows.T
    return gram


def test_innovations_are_the_scores_by_the_inverse_of_the_cholesky_factor() -> None:
    rng = np.random.default_rng(1)
    shared = correlated(20, 60, rng)
    assert np.linalg.eigvalsh(shared).min() > LEAST, "here every score has an innovation"
    for scores in (rng.standard_normal(20), rng.standard_normal((20, 7))):
        white, counted = innovations(scores, shared)
        assert counted.all()
        expected = np.linalg.solve(np.linalg.cholesky(shared), scores)
        np.testing.assert_allclose(white, expected, atol=1e-9)


def test_what_is_given_is_left_as_it_was() -> None:
    rng = np.random.default_rng(2)
    shared, scores = correlated(6, 30, rng), rng.standard_normal(6)
    before = shared.copy(), scores.copy()
    innovations(scores, shared)
    np.testing.assert_array_equal(shared, before[0])
    np.testing.assert_array_equal(scores, before[1])


def test_a_score_that_comes_again_is_not_counted_again() -> None:
    rng = np.random.default_rng(3)
    shared, scores = correlated(5, 30, rng), rng.standard_normal(5)
    order = np.array([0, 1, 1, 2, 0, 3, 4, 4])
    white, counted = innovations(scores[order], shared[np.ix_(order, order)])
    assert counted.tolist() == [True, True, False, True, False, True, True, False]
    assert not white[~counted].any()
    np.testing.assert_allclose(white[counted], innovations(scores, shared)[0], atol=1e-9)


def test_a_score_that_the_others_leave_next_to_nothing_of_is_not_counted() -> None:
    """More scores than the directions they come from: the last are sums of those before."""
    rng = np.random.default_rng(4)
    rows = np.vstack([np.eye(4), rng.standard_normal((9, 4))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    form = rng.standard_normal(4)
    white, counted = innovations(rows @ form, rows @ rows.T)
    assert counted.tolist() == [True] * 4 + [False] * 9
    np.testing.assert_allclose(white[:4], form, atol=1e-12)
    for left, is_counted in ((1.1 * LEAST, True), (0.9 * LEAST, False)):
        near = np.sqrt(1.0 - left)
        pair = innovations(np.ones(2), np.array([[1.0, near], [near, 1.0]]))
        assert pair[1].tolist() == [True, is_counted]


def test_innovations_of_correlated_deviates_are_independent_standard_normals() -> None:
    """Their covariance is the identity, four standard errors: of 78 entries one fails in 200 runs
    of other numbers, and these are the same in every run."""
    rng = np.random.default_rng(5)
    n, count = 12, 40_000
    shared = correlated(n, 40, rng)
    scores = np.linalg.cholesky(shared) @ rng.standard_normal((n, count))
    error = np.abs(scores @ scores.T / count - np.eye(n)).max()
    assert error > 0.2, "without whitening the test would fail"
    white, counted = innovations(scores, shared)
    assert counted.all()
    found = white @ white.T / count
    slack = 4 * np.sqrt((1 + np.eye(n)) / count)  # variance 2 of a square, 1 of a product
    assert (np.abs(found - np.eye(n)) < slack).all()
    assert (np.abs(white.mean(axis=1)) < 4 / np.sqrt(count)).all()
