"""Sums over units in groups: the exact tail, against enumeration, draws and the binomial."""

from __future__ import annotations

import math
from itertools import islice, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from hammingmark.keys.key import Secret
from hammingmark.stats.compare import TextTest, compare
from hammingmark.stats.grouped import GroupedNull
from hammingmark.stats.nulls import BinomialNull
from hammingmark.stats.sums import SMALLEST

SECRET = Secret(bytes(range(32)))
VOTE = np.array([[0, 1]])


def sums_by_enumeration(
    groups: list[int], increments: NDArray[np.int64], kinds: list[int], shares: list[float]
) -> dict[int, float]:
    """The probability of each sum, by going through the outcomes of all groups."""
    found: dict[int, float] = {}
    names = sorted(set(groups))
    for outcomes in product(range(len(shares)), repeat=len(names)):
        drawn = dict(zip(names, outcomes, strict=True))
        total = sum(
            int(increments[kind, drawn[group]]) for group, kind in zip(groups, kinds, strict=True)
        )
        probability = math.prod(shares[outcome] for outcome in outcomes)
        found[total] = found.get(total, 0.0) + probability
    return found


@given(st.data())
def test_the_tail_is_that_of_all_outcomes(data: st.DataObject) -> None:
    outcomes = data.draw(st.integers(1, 3))
    units = data.draw(st.integers(1, 7))
    rows = st.lists(st.integers(-3, 3), min_size=outcomes, max_size=outcomes)
    increments = np.array(data.draw(st.lists(rows, min_size=1, max_size=3)))
    kinds = data.draw(st.lists(st.integers(0, len(increments) - 1), min_size=units, max_size=units))
    groups = data.draw(st.lists(st.integers(-2, 2), min_size=units, max_size=units))
    weights = data.draw(st.lists(st.integers(1, 9), min_size=outcomes, max_size=outcomes))
    shares = [weight / sum(weights) for weight in weights]
    null = GroupedNull(
        np.array(groups), increments, shares, kinds=np.array(kinds), centre=0.75, secret=SECRET
    )
    expected = sums_by_enumeration(groups, increments, kinds, shares)
    for score in range(min(expected) - 1, max(expected) + 1):
        tail = sum(share for total, share in expected.items() if total >= score)
        equal_parts = np.full(units, score / units)
        assert null.p_value(equal_parts) == pytest.approx(tail, rel=1e-9), "blurred by division"
    mean = sum(total * share for total, share in expected.items())
    variance = sum((total - mean) ** 2 * share for total, share in expected.items())
    assert null.mean == pytest.approx(mean, abs=1e-9)
    assert null.variance == pytest.approx(variance, abs=1e-9)
    assert null.attainable == pytest.approx(expected[max(expected)], rel=1e-9)
    best = increments[kinds].max(axis=1)
    np.testing.assert_array_equal(null.best, best)


@given(st.integers(1, 300), st.integers(0, 301), st.floats(0.01, 0.99))
def test_groups_of_one_are_binomial(n: int, k: int, p: float) -> None:
    null = GroupedNull(np.arange(n), VOTE, [1.0 - p, p], centre=0.75, secret=SECRET)
    expected = float(stats.binom.sf(k - 1, n, p))
    increments = np.r_[float(k), np.zeros(n - 1)]
    assert null.p_value(increments) == pytest.approx(max(expected, SMALLEST), rel=1e-7)


def test_a_far_tail_keeps_its_precision() -> None:
    """900 of 1,000 with repeats: each pair that comes twice is one vote that counts twice."""
    null = GroupedNull(np.arange(1000) // 2, VOTE, [0.5, 0.5], centre=0.75, secret=SECRET)
    expected = float(stats.binom.logsf(449, 500, 0.5))
    assert expected < -180.0
    p = null.p_value(np.r_[np.ones(900), np.zeros(100)])
    assert math.log(p) == pytest.approx(expected, abs=1e-9)
    all_green = GroupedNull(np.arange(990), VOTE, [0.5, 0.5], centre=0.75, secret=SECRET)
    assert all_green.attainable == pytest.approx(0.5**990, rel=1e-9)
    assert all_green.attainable == all_green.p_value(np.ones(990))
    assert (
        GroupedNull(np.arange(2000), VOTE, [0.5, 0.5], centre=0.75, secret=SECRET).attainable
        == SMALLEST
    )


def test_a_token_that_comes_again_is_worth_less_than_two() -> None:
    increments = np.ones(40)
    alone = GroupedNull(np.arange(40), VOTE, [0.5, 0.5], centre=0.75, secret=SECRET)
    twice = GroupedNull(np.arange(40) % 20, VOTE, [0.5, 0.5], centre=0.75, secret=SECRET)
    assert alone.p_value(increments) == pytest.approx(2.0**-40)
    assert twice.p_value(increments) == pytest.approx(2.0**-20)
    assert alone.z(increments) == pytest.approx(math.sqrt(40))
    assert twice.z(increments) == pytest.approx(math.sqrt(20))


def semantic_null() -> tuple[GroupedNull, NDArray[np.int64]]:
    """60 units of 25 groups, in 5 stretches of text, each with signs of its own."""
    rng = np.random.default_rng(3)
    increments = np.where(rng.random((5, 30)) < 0.5, -1, 1)
    groups, kinds = rng.integers(25, size=60), np.arange(60) // 12
    null = GroupedNull(
        groups, increments, np.full(30, 1 / 30), kinds=kinds, centre=0.75, secret=SECRET
    )
    return null, groups


def test_draws_have_the_distribution_that_is_computed() -> None:
    """Four standard errors of 8,000 draws at each of ten sums."""
    null, _ = semantic_null()
    draws = 8000
    blocks = [np.concatenate(list(block)) for block in islice(null.blocks(), draws // 1000)]
    sums = np.concatenate(blocks, axis=1).sum(axis=0)
    for score in np.quantile(sums, [0.02, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.98, 0.995]):
        increments = np.r_[score, np.zeros(59)]
        p = null.p_value(increments)
        assert abs(float((sums >= score).mean()) - p) <= 4 * math.sqrt(p * (1 - p) / draws)
    assert abs(sums.mean() - null.mean) <= 4 * math.sqrt(null.variance / draws)


def test_units_of_a_group_share_their_draw() -> None:
    null = GroupedNull(np.array([7, 300, 7]), VOTE, [0.5, 0.5], centre=0.75, secret=SECRET)
    (block,) = next(null.blocks())
    assert block.shape == (3, 1000)
    np.testing.assert_array_equal(block[0], block[2])
    assert not np.array_equal(block[0], block[1])
    far = GroupedNull(
        np.r_[7, np.arange(100, 700), 7], VOTE, [0.5, 0.5], centre=0.75, secret=SECRET
    )
    rows = np.concatenate(list(next(far.blocks())))
    np.testing.assert_array_equal(rows[0], rows[-1], err_msg="in another chunk")


def test_draws_come_from_the_secret() -> None:
    groups = np.arange(9)
    one, again, other = (
        next(
            next(
                GroupedNull(
                    groups, VOTE, [0.5, 0.5], centre=0.75, secret=Secret(bytes([n] * 32))
                ).blocks()
            )
        )
        for n in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_any_window_is_corrected_for_all_of_them() -> None:
    """Over draws the smallest p-value of any window keeps its level, and finds a marked one."""
    null, _ = semantic_null()
    # Other draws than those that windows are compared with.
    values = np.concatenate(list(next(islice(null.blocks(), 2, None))))[:, :300]
    found = [
        min((each.p_value for each in compare(test, limit=1).windows), default=1.0)
        for test in (TextTest(increments, null.best, null.centre, null) for increments in values.T)
    ]
    for level in (0.01, 0.05, 0.3):
        share = (np.array(found) <= level).mean()
        assert abs(share - level) <= 4 * math.sqrt(level * (1 - level) / 300) + 0.02
    alone = GroupedNull(np.arange(400), VOTE, [0.5, 0.5], centre=0.75, secret=SECRET)
    exact = BinomialNull(np.ones(400, np.bool_), 0.5, SECRET)
    for length in (14, 18, 22):
        increments, window = np.zeros(400), slice(20, 20 + length)
        increments[window] = 1.0
        expected = exact.window_p_value(increments, window)
        error = 4.0 * np.sqrt(expected / 2000)
        assert abs(alone.window_p_value(increments, window) - expected) < error + 1 / 2000
    # Beyond what draws can show, by the tail of the window alone.
    increments[20:70] = 1.0
    deep = alone.window_p_value(increments, slice(20, 70))
    assert deep == pytest.approx(400 * 401 / 2 * 2.0**-50)
    assert exact.window_p_value(increments, slice(20, 70)) < deep
    assert alone.window_p_value(increments, slice(0, 400)) == 1.0


def test_a_text_without_a_unit() -> None:
    null = GroupedNull(np.zeros(0, np.int64), VOTE, [0.5, 0.5], centre=0.75, secret=SECRET)
    assert null.computed is null
    assert null.p_value(np.zeros(0)) == 1.0
    assert null.attainable == 1.0
    assert null.z(np.zeros(0)) == 0.0
    assert next(null.blocks(), None) is not None
