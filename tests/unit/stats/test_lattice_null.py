"""Sums of increments on a lattice: exact tails, and bounds where exactness would cost too much."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from scipy import stats

from hammingmark.keys.key import Secret
from hammingmark.records import Power
from hammingmark.stats.compare import TextTest, compare
from hammingmark.stats.lattice_null import LatticeNull
from hammingmark.stats.sums import Increments

SECRET = Secret(b"s" * 32)
EVEN = Increments(0, stats.binom.pmf(np.arange(9), 8, 0.5), step=1 / 8)


def null(counted: int, *, increments: Increments = EVEN, centre: float = 5 / 8) -> LatticeNull:
    where = np.ones(counted, np.bool_)
    return LatticeNull(where, increments, centre=centre, secret=SECRET, description="exact")


def test_tails_are_those_of_the_binomial() -> None:
    for n, mean in ((1, 0.5), (20, 0.6), (300, 0.55), (300, 0.9)):
        ones = round(8 * n * mean)
        increments = np.full(n, ones / 8 / n)
        assert null(n).p_value(increments) == pytest.approx(
            stats.binom.sf(ones - 1, 8 * n, 0.5), rel=1e-6
        )


def test_what_does_not_count_adds_nothing() -> None:
    counted = np.array([True, False, True])
    one = LatticeNull(counted, EVEN, centre=5 / 8, secret=SECRET, description="exact")
    np.testing.assert_array_equal(one.best, [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(one.centre, [5 / 8, 0.0, 5 / 8])
    assert one.p_value(np.array([1.0, 0.0, 1.0])) == pytest.approx(2.0**-16)
    drawn = np.concatenate(list(next(one.blocks())))
    assert not drawn[1].any()
    assert drawn[0].any()


def test_draws_have_the_distribution() -> None:
    drawn = np.concatenate([np.concatenate(list(b)) for b in islice(null(4).blocks(), 3)]).ravel()
    shares = np.bincount(np.rint(8 * drawn).astype(np.int64), minlength=9) / len(drawn)
    slack = 4 * np.sqrt(0.25 / len(drawn))
    np.testing.assert_allclose(shares, stats.binom.pmf(np.arange(9), 8, 0.5), atol=slack)


def test_powers_of_the_transition_matrix_give_what_step_by_step_gives() -> None:
    """Sixty-four steps are taken one by one, one more is not where that is slow."""
    for score in (0.5, 1.0, 2.5):
        few, more = (EVEN.scan_survival(n, score, centre=5 / 8) for n in (64, 65))
        rng = np.random.default_rng(0)
        walk = rng.binomial(8, 0.5, size=(65, 40_000)) - 5
        now, best = np.zeros(40_000), np.zeros((66, 40_000))
        for place, step in enumerate(walk):
            now = np.maximum(0, now + step)
            best[place + 1] = np.maximum(best[place], now)
        for n, tail in ((64, few), (65, more)):
            share = float((best[n] >= 8 * score).mean())
            assert tail == pytest.approx(share, abs=4 * np.sqrt(0.25 / 40_000))
        assert few < more < few * 1.1


def test_the_bound_on_windows_lies_above_them_and_not_far() -> None:
    for n in (50, 400):
        for score in (2.0, 3.0, 4.0):
            exact = EVEN.scan_survival(n, score, centre=5 / 8)
            bound = EVEN.scan_bound(n, score, centre=5 / 8)
            assert exact <= bound <= 60 * exact or bound == 1.0


def test_windows_far_out_have_a_p_value_at_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 1e-6 on nothing is computed exactly any more, and p-values still fall."""
    asked = []
    exact = Increments.scan_survival

    def recorded(self: Increments, n: int, score: float, *, centre: float) -> float:
        asked.append(score)
        return exact(self, n, score, centre=centre)

    monkeypatch.setattr(Increments, "scan_survival", recorded)
    values = []
    for marked in (2, 6, 10, 14, 18, 60, 2000):
        increments = np.full(5000, 0.5)
        increments[:marked] = 1.0
        values.append(null(5000).window_p_value(increments, slice(0, marked)))
    assert values == sorted(values, reverse=True)
    assert values[0] > 0.5
    assert values[3] < 1e-2
    assert 0.0 < values[-1] < 1e-290
    assert max(asked) < 10.0  # of 750


def test_a_text_without_a_unit_has_draws_of_nothing() -> None:
    drawn = np.concatenate(list(next(null(0).blocks())))
    assert drawn.shape[0] == 0
    assert null(0).p_value(np.zeros(0)) == 1.0


def test_power_is_that_of_ratios_alone() -> None:
    increments = np.zeros(3)
    test = TextTest(increments, null(3).best, null(3).centre, null(3))
    assert compare(test, limit=9).power(0.01) == Power()


def test_power_by_one_convolution_is_that_by_search() -> None:
    """Log-likelihood ratios of two coins; at small levels each tail is computed by itself."""
    mass = np.zeros(12)
    mass[0], mass[11] = 0.5, 0.5
    increments = Increments(-7, mass, step=np.log(1.5) / 4)
    coarse = increments.power(80, 1e-9)
    fine = increments.power(80, 0.999e-9)
    assert 0.01 < fine <= coarse < fine * 1.5
