"""How often marked tokens would be found: what verdicts that are not positive rest on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hammingmark.core.grouped import GroupedNull
from hammingmark.core.marked_tokens import FREEDOM, log_odds, marked_share
from hammingmark.core.nulls import BinomialNull
from hammingmark.keys import Secret

SECRET = Secret(bytes(range(32)))


def test_the_share_lies_between_natural_and_most() -> None:
    assert marked_share(0.5, 0.9) == pytest.approx(0.5 + FREEDOM * 0.4)
    assert marked_share(0.3, 0.3) == 0.3
    assert log_odds(0.5, 0.5) == 0.0
    assert log_odds(0.8, 0.5) == pytest.approx(math.log(4.0))


@pytest.mark.parametrize("gamma", [0.25, 0.5])
@pytest.mark.parametrize("level", [0.05, 0.01, 1e-4])
@pytest.mark.parametrize("units", [1, 9, 40, 300])
def test_the_power_of_counts_is_binomial(units: int, level: float, gamma: float) -> None:
    null = BinomialNull(np.ones(units, np.bool_), gamma, SECRET, marked=0.7)
    critical = stats.binom.isf(level, units, gamma) + 1
    assert null.power(level) == pytest.approx(stats.binom.sf(critical - 1, units, 0.7), abs=1e-9)
    assert BinomialNull(np.ones(units, np.bool_), gamma, SECRET).power(level) is None


def test_the_power_of_many_counts_goes_on_from_that_of_fewer() -> None:
    fewer, more = (
        BinomialNull(np.ones(units, np.bool_), 0.5, SECRET, marked=0.54).power(0.01)
        for units in (1000, 1001)
    )
    assert fewer is not None
    assert more == pytest.approx(fewer, abs=0.03)


@pytest.mark.parametrize("repeats", [1, 3])
def test_the_power_of_grouped_units_is_about_what_draws_show(repeats: int) -> None:
    """Signs of which 70 % are 1 in marked text, each said as often as this."""
    groups = np.repeat(np.arange(60), repeats)
    null = GroupedNull(
        groups, np.array([[-1, 1]]), (0.5, 0.5), centre=0.2, secret=SECRET,
        tilt=log_odds(0.7, 0.5) / 2.0,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    natural, marked = (
        repeats * (2.0 * rng.binomial(60, share, 40_000) - 60) for share in (0.5, 0.7)
    )
    for level in (0.05, 0.01, 0.001):
        expected = np.mean(marked >= np.quantile(natural, 1.0 - level))
        assert null.power(level) == pytest.approx(expected, abs=0.06)
    plain = GroupedNull(groups, np.array([[-1, 1]]), (0.5, 0.5), centre=0.2, secret=SECRET)
    assert plain.power(0.01) is None
