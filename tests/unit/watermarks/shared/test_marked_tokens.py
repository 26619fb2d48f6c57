"""The power of token methods, on which verdicts that are not positive depend."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hammingmark.keys.key import Secret
from hammingmark.records import Power
from hammingmark.stats.grouped import GroupedNull
from hammingmark.stats.lattice_null import LatticeNull
from hammingmark.stats.nulls import BinomialNull
from hammingmark.watermarks._shared.token_scores import FREEDOM, log_odds, marked_share
from hammingmark.watermarks.synthid.method import statistics_of

SECRET = Secret(bytes(range(32)))


def test_the_share_lies_between_natural_and_most() -> None:
    assert marked_share(0.5, 0.9) == pytest.approx(0.5 + FREEDOM * 0.4)
    assert marked_share(0.3, 0.3) == 0.3
    assert log_odds(0.5, 0.5) == 0.0
    assert log_odds(0.8, 0.5) == pytest.approx(math.log(4.0))


@pytest.mark.parametrize("gamma", [0.25, 0.5])
@pytest.mark.parametrize("level", [0.05, 0.01, 1e-4])
@pytest.mark.parametrize("units", [1, 9, 40, 300, 5000])
def test_the_power_of_counts_is_binomial(units: int, level: float, gamma: float) -> None:
    null = BinomialNull(np.ones(units, np.bool_), gamma, SECRET, marked=0.7)
    critical = stats.binom.isf(level, units, gamma) + 1
    assert null.power(level).mean == pytest.approx(
        stats.binom.sf(critical - 1, units, 0.7), abs=1e-9
    )
    assert null.power(level).as_written == null.power(level / 2).mean, "of two tests together"
    assert BinomialNull(np.ones(units, np.bool_), gamma, SECRET).power(level) == Power()


def test_no_key_may_be_able_to_reach_a_level() -> None:
    null = GroupedNull(
        np.arange(3), np.array([[-1, 1]]), (0.5, 0.5), centre=0.2, secret=SECRET, tilt=1.0
    )
    assert null.power(0.1).as_written == 0.0
    assert BinomialNull(np.ones(3, np.bool_), 0.5, SECRET, marked=0.9).power(0.1).mean == 0.0


def test_likelihood_ratios_that_say_little_need_many_units() -> None:
    """The power still grows after the first units, at levels that these cannot reach."""
    ratios = statistics_of(1, "mixed")["bayesian"].increments
    few, many = (
        LatticeNull(
            np.ones(units, np.bool_),
            ratios,
            centre=0.0,
            secret=SECRET,
            description="",
            ratios=ratios,
        )
        .power(1e-9)
        .mean
        for units in (200, 2000)
    )
    assert few is not None
    assert many is not None
    assert few < 0.5 < 0.99 < many


@pytest.mark.parametrize("repeats", [1, 3])
def test_the_power_of_grouped_units_is_about_what_draws_show(repeats: int) -> None:
    """Signs of which 60 % are 1 in marked text, each as often as its token comes.

    One that comes three times was three times as likely to be favoured.
    """
    groups = np.repeat(np.arange(60), repeats)
    null = GroupedNull(
        groups, np.array([[-1, 1]]), (0.5, 0.5), centre=0.2, secret=SECRET,
        tilt=log_odds(0.6, 0.5) / 2.0,
    )  # fmt: skip
    share = 0.6**repeats / (0.6**repeats + 0.4**repeats)
    for level in (0.05, 0.01, 0.001, 1e-6):
        critical = stats.binom.isf(level, 60, 0.5) + 1
        expected = stats.binom.sf(critical - 1, 60, share)
        assert null.power(level).mean == pytest.approx(expected, abs=0.03)  # as if normal
    plain = GroupedNull(groups, np.array([[-1, 1]]), (0.5, 0.5), centre=0.2, secret=SECRET)
    assert plain.power(0.01) == Power()
