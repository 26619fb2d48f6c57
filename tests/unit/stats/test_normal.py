"""The normal tail, held to scipy's."""

from __future__ import annotations

import numpy as np
from scipy import special

from hammingmark.stats.normal import DEEPEST, log_tail, tail_quantile


def test_the_logarithm_of_the_tail_is_the_librarys() -> None:
    x = np.linspace(-8.99, 36.99, 30_001)
    np.testing.assert_allclose(log_tail(x), special.log_ndtr(-x), atol=1e-10)
    inside = x[x > -5.0]
    np.testing.assert_allclose(log_tail(inside), special.log_ndtr(-inside), rtol=1e-6)


def test_what_lies_outside_counts_as_the_border() -> None:
    assert log_tail(np.array([-50.0]))[0] > -1e-18
    assert log_tail(np.array([50.0]))[0] == log_tail(np.array([37.0]))[0]
    assert np.isclose(log_tail(np.array([37.0]))[0], DEEPEST)
    assert tail_quantile(np.array([-1e6]))[0] == 37.0


def test_the_quantile_is_the_tail_the_other_way_round() -> None:
    x = np.linspace(-5.0, 36.9, 20_001)
    np.testing.assert_allclose(tail_quantile(log_tail(x)), x, atol=1e-7)
    p = np.linspace(1e-6, 1 - 1e-6, 9999)
    np.testing.assert_allclose(tail_quantile(np.log(p)), -special.ndtri(p), atol=1e-8)
