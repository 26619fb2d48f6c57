"""Null distributions in closed form and by draws."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hammingmark.keys.key import Secret
from hammingmark.records import Power
from hammingmark.stats.compare import TextTest, compare
from hammingmark.stats.nulls import (
    BinomialNull,
    KeyRandomization,
    NormalApproximation,
)
from hammingmark.stats.sums import SMALLEST


@given(st.integers(1, 300), st.integers(-2, 302), st.floats(0.01, 0.99))
def test_the_binomial_tail_is_the_librarys(n: int, k: int, p: float) -> None:
    increments = np.r_[float(k), np.zeros(n - 1)]
    got, expected = null([True] * n, p).p_value(increments), float(stats.binom.sf(k - 1, n, p))
    assert got == pytest.approx(max(expected, SMALLEST), rel=1e-7)


def null(counted: list[bool], probability: float = 0.25) -> BinomialNull:
    return BinomialNull(np.array(counted), probability, Secret(bytes(range(32))))


def test_units_that_come_again_count_once() -> None:
    made = null([True, True, False, True])
    assert made.p_value(np.array([1.0, 1.0, 0.0, 1.0])) == pytest.approx(0.25**3)
    blurred = np.array([1.0, 1.0, 0.0, 1.0 - 1e-8])
    assert made.p_value(blurred) == pytest.approx(0.25**3), "a tie that rounding blurred"
    assert made.p_value(np.zeros(4)) == 1.0
    assert made.p_value(np.ones(4)) == SMALLEST, "more than there can be"
    (block,) = next(made.blocks())
    assert block.shape == (4, 1000)
    assert not block[2].any()
    shares = block.mean(axis=1)[[0, 1, 3]]
    assert (np.abs(shares - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 1000)).all()


@pytest.mark.parametrize("probability", [0.25, 0.93, 0.97, 0.999])
def test_a_passage_can_be_found_however_many_units_are_valid(probability: float) -> None:
    """The centre lies between the mean and 1."""
    made = null([True] * 40, probability)
    assert probability < made.centre[0] < 1.0
    short, long = (made.window_p_value(np.ones(40), slice(0, end)) for end in (5, 40))
    assert long < short


def test_draws_come_from_the_secret() -> None:
    first, again = ([*islice(null([True] * 5).blocks(), 2)] for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(next(one), next(other))
    other_key = BinomialNull(np.ones(5, bool), 0.25, Secret(bytes(32)))
    assert not np.array_equal(next(next(null([True] * 5).blocks())), next(next(other_key.blocks())))


@pytest.mark.parametrize("draw", [3, 40, 500])
def test_a_test_in_closed_form_agrees_with_its_draws(draw: int) -> None:
    """The whole, and the best window of it, by the formula and by counting."""
    closed, count = null([True] * 30 + [False] * 10), 4000
    blocks = [np.concatenate(list(block)) for block in islice(closed.blocks(), count // 1000)]
    draws = np.concatenate(blocks, axis=1)
    # A text that does about as well as the best of a few draws.
    increments = draws[:, int(np.argsort(draws.sum(axis=0))[-max(1, count // draw)])]
    drawn = KeyRandomization(closed.blocks)
    parts = (increments, closed.best, closed.centre)
    by_formula = compare(TextTest(*parts, closed), limit=count)
    by_counting = compare(TextTest(*parts, drawn), limit=count)
    pairs = [(by_formula.p_value, by_counting.p_value)]
    if by_formula.windows:
        pairs.append((by_formula.windows[0].p_value, by_counting.windows[0].p_value))
    for one, other in pairs:
        assert abs(one - other) < 4 * np.sqrt(one * (1 - one) / count) + 2 / count
    assert by_formula.windows or by_counting.windows[0].p_value > 0.45


def test_votes_have_no_power() -> None:
    assert null([True] * 5).power(0.05) == Power(), "it is not known how many a mark makes valid"
    assert null([True] * 5).attainable == pytest.approx(0.25**5)


def test_a_long_text_is_drawn_chunk_by_chunk() -> None:
    chunks = list(next(null([True] * 600).blocks()))
    assert [chunk.shape for chunk in chunks] == [(256, 1000), (256, 1000), (88, 1000)]
    assert not np.array_equal(chunks[0], chunks[1])


@given(st.integers(1, 200), st.floats(0.02, 0.98), st.floats(0.0, 1.0))
def test_the_normal_approximation_is_the_z_test(n: int, expected: float, mean: float) -> None:
    made = NormalApproximation(n, expected, Secret(bytes(32)))
    z = (mean - expected) * n / np.sqrt(n * expected * (1 - expected))
    wanted = max(float(stats.norm.sf(z)), expected**n, SMALLEST)
    assert made.p_value(np.full(n, mean)) == pytest.approx(wanted, rel=1e-6)
    assert made.attainable <= made.p_value(np.full(n, mean)) * (1 + 1e-9)
    power = made.power(0.01)
    assert power.as_written is not None
    assert 0.0 <= power.as_written <= 1.0
    assert (power.mean, power.reworded) == (None, None)


@pytest.mark.parametrize("expected", [0.02, 0.25, 0.6])
def test_windows_of_unmarked_units_hardly_ever_look_marked(expected: float) -> None:
    """Where units are valid independently with probability γ, short windows among them."""
    made = NormalApproximation(20, expected, Secret(bytes(32)))
    (block,) = next(made.blocks())
    assert abs(block.mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / block.size)
    found = 0
    for increments in block.T[:400]:
        test = TextTest(increments, np.ones(20), np.full(20, (1 + expected) / 2), made)
        found += any(window.p_value <= 0.05 for window in compare(test, limit=99).windows)
    assert found <= 400 * 0.05
    marked = TextTest(np.ones(20), np.ones(20), np.full(20, (1 + expected) / 2), made)
    assert [(each.begin, each.end) for each in compare(marked, limit=99).windows] == [(0, 20)]
