"""The triangular factor of correlated normal scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hammingmark.watermarks.bilinear.scores import MIN_VARIANCE, triangular_factor


def correlated(n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The Gram matrix (n, n) of unit rows with a common topic, as a covariance."""
    rows = rng.standard_normal((n, d)) + rng.standard_normal(d)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    gram: NDArray[np.float64] = rows @ rows.T
    return gram


def test_the_factor_is_that_of_cholesky() -> None:
    shared = correlated(20, 60, np.random.default_rng(1))
    assert np.linalg.eigvalsh(shared).min() > MIN_VARIANCE, "here every score counts"
    before = shared.copy()
    lower, counted = triangular_factor(shared)
    assert counted.all()
    np.testing.assert_allclose(lower, np.linalg.cholesky(shared), atol=1e-9)
    np.testing.assert_array_equal(shared, before)


def test_a_score_that_comes_again_is_not_counted_again() -> None:
    shared = correlated(5, 30, np.random.default_rng(3))
    order = np.array([0, 1, 1, 2, 0, 3, 4, 4])
    lower, counted = triangular_factor(shared[np.ix_(order, order)])
    assert counted.tolist() == [True, True, False, True, False, True, True, False]
    assert not lower[:, ~counted].any()
    once, _ = triangular_factor(shared)
    np.testing.assert_allclose(lower[np.ix_(counted, counted)], once, atol=1e-9)


def test_a_score_that_the_others_leave_next_to_nothing_of_is_not_counted() -> None:
    """There are more scores than dimensions, so that the last are combinations of the first."""
    rng = np.random.default_rng(4)
    rows = np.vstack([np.eye(4), rng.standard_normal((9, 4))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    lower, counted = triangular_factor(rows @ rows.T)
    assert counted.tolist() == [True] * 4 + [False] * 9
    np.testing.assert_allclose(lower[:, :4], rows, atol=1e-12)
    for left, is_counted in ((1.1 * MIN_VARIANCE, True), (0.9 * MIN_VARIANCE, False)):
        near = np.sqrt(1.0 - left)
        _, pair = triangular_factor(np.array([[1.0, near], [near, 1.0]]))
        assert pair.tolist() == [True, is_counted]
