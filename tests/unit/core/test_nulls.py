"""Null distributions in closed form and by draws."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hammingmark.core.compare import TextTest, compare
from hammingmark.core.nulls import BinomialNull, KeyRandomization
from hammingmark.core.theory import binomial_survival
from hammingmark.keys import Secret


@given(st.integers(0, 300), st.integers(-2, 302), st.floats(0, 1))
def test_the_binomial_tail_is_the_librarys(n: int, k: int, p: float) -> None:
    got, expected = binomial_survival(n, k, p), float(stats.binom.sf(k - 1, n, p))
    assert got == pytest.approx(expected, rel=1e-8, abs=1e-290)


def test_the_binomial_tail_goes_far_down() -> None:
    assert binomial_survival(1000, 1000, 0.5) == pytest.approx(0.5**1000, rel=1e-9)


def null(counted: list[bool], probability: float = 0.25) -> BinomialNull:
    return BinomialNull(np.array(counted), probability, Secret(bytes(range(32))))


def test_units_that_come_again_count_once() -> None:
    made = null([True, True, False, True])
    assert made.survival(3) == pytest.approx(0.25**3)
    assert made.survival(3 - 1e-7) == pytest.approx(0.25**3), "a tie that rounding blurred"
    assert made.survival(0) == 1.0
    assert made.survival(4) == 0.0
    (block,) = next(made.blocks())
    assert block.shape == (4, 1000)
    assert not block[2].any()
    shares = block.mean(axis=1)[[0, 1, 3]]
    assert (np.abs(shares - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 1000)).all()


def test_draws_come_from_the_secret() -> None:
    first, again = ([*islice(null([True] * 5).blocks(), 2)] for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(next(one), next(other))
    other_key = BinomialNull(np.ones(5, bool), 0.25, Secret(bytes(32)))
    assert not np.array_equal(next(next(null([True] * 5).blocks())), next(next(other_key.blocks())))


def test_a_test_in_closed_form_agrees_with_its_draws() -> None:
    """The whole by the formula and by counting, for the same text."""
    counted = np.ones(40, bool)
    own = np.zeros(40)
    own[:16] = 1.0  # 16 of 40, where 10 are expected
    closed = BinomialNull(counted, 0.25, Secret(bytes(range(32))))
    drawn = KeyRandomization(closed.blocks)
    parts = (own, np.ones(40), np.full(40, 0.5))
    by_formula = compare(TextTest(*parts, closed), limit=20_000)
    by_counting = compare(TextTest(*parts, drawn), limit=20_000)
    assert by_formula.p_value == pytest.approx(float(stats.binom.sf(15, 40, 0.25)))
    slack = 4 * np.sqrt(by_formula.p_value / 20_000)
    assert abs(by_formula.p_value - by_counting.p_value) < slack
    assert by_formula.windows == by_counting.windows
    assert by_formula.attainable == pytest.approx(0.25**40)


def test_a_long_text_is_drawn_chunk_by_chunk() -> None:
    chunks = list(next(null([True] * 600).blocks()))
    assert [chunk.shape for chunk in chunks] == [(256, 1000), (256, 1000), (88, 1000)]
    assert not np.array_equal(chunks[0], chunks[1])
