"""The exact test over keys, its sequential form, and the tail estimate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.stats.references import (
    SequentialTest,
    coordinates,
    p_value,
    power,
    tail_estimate,
)


def unit_rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@given(n=st.integers(1, 12), d=st.integers(1, 12), seed=st.integers(0, 99))
def test_coordinates_keep_every_inner_product(n: int, d: int, seed: int) -> None:
    rows = unit_rows(n, d, seed)
    reduced = coordinates(rows)
    assert reduced.shape == (n, min(n, d))
    np.testing.assert_allclose(reduced @ reduced.T, rows @ rows.T, atol=1e-5)


def test_coordinates_of_a_beginning_are_the_beginning_of_the_coordinates() -> None:
    rows = unit_rows(9, 32)
    np.testing.assert_allclose(coordinates(rows)[:5, :5], coordinates(rows[:5]), atol=1e-6)


def test_repeated_sentences_have_equal_coordinates() -> None:
    rows = unit_rows(3, 32)[[0, 1, 0, 2, 1]]
    reduced = coordinates(rows)
    np.testing.assert_allclose(reduced[2], reduced[0], atol=1e-6)
    np.testing.assert_allclose(reduced[4], reduced[1], atol=1e-6)


def test_p_value_counts_ties_against_us() -> None:
    scores = np.array([1.0, 2.0, 2.0, 3.0])
    assert p_value(scores, 2.0) == 4 / 5
    assert p_value(scores, 2.0 + 1e-12) == 4 / 5
    assert p_value(scores, 2.1) == 2 / 5
    assert p_value(scores, 9.0) == 1 / 5
    assert p_value(scores, 0.0) == 1.0


def test_p_values_of_exchangeable_scores_are_uniform() -> None:
    rng = np.random.default_rng(1)
    draws = rng.integers(0, 12, size=(20_000, 100)).astype(float)  # many ties
    p = np.array([p_value(row[1:], row[0]) for row in draws])
    for level in (0.01, 0.05, 0.2):
        share = float((p <= level).mean())
        assert share <= level + 4 * np.sqrt(level / len(p))


@pytest.mark.parametrize("stop_after", [1, 5, 10])
def test_the_sequential_test_keeps_the_level(stop_after: int) -> None:
    rng = np.random.default_rng(stop_after)
    values = []
    for _ in range(4000):
        test = SequentialTest(float(rng.random()), limit=500, stop_after=stop_after)
        while not test.stopped:
            test.update(rng.random(73))
        values.append(test.p_value)
    p = np.array(values)
    for level in (0.01, 0.05, 0.2, 0.5):
        share = float((p <= level).mean())
        assert share <= level + 4 * np.sqrt(level * (1 - level) / len(p))
        # Where the level is attainable exactly, the test is not needlessly timid either.
        assert share >= level - 5 * np.sqrt(level * (1 - level) / len(p)) - 1 / stop_after


def test_the_sequential_test_does_not_depend_on_block_size() -> None:
    scores = np.random.default_rng(2).random(1000)
    results = set()
    for size in (1, 7, 1000):
        test = SequentialTest(0.97, limit=900, stop_after=20)
        for begin in range(0, 1000, size):
            test.update(scores[begin : begin + size])
        results.add((test.drawn, test.reached, test.p_value))
    assert len(results) == 1
    drawn, reached, p = results.pop()
    assert reached == 20
    assert p == 20 / drawn


def test_without_early_stopping_the_sequential_test_is_the_plain_one() -> None:
    scores = np.random.default_rng(3).random(1500)
    test = SequentialTest(0.9, limit=1200)
    test.update(scores[:1000])
    assert not test.stopped
    test.update(scores[1000:])
    assert test.stopped
    assert test.p_value == p_value(scores[:1200], 0.9)


@pytest.mark.parametrize("far", [4.0, 4.5, 5.0])
def test_the_tail_estimate_errs_upwards_on_sums(far: float) -> None:
    from scipy import stats

    scores = np.random.default_rng(4).standard_normal(4000)
    estimate = tail_estimate(scores, far)
    truth = float(stats.norm.sf(far))
    assert truth < estimate < 1 / 4001


def test_the_tail_estimate_never_exceeds_the_p_value() -> None:
    scores = np.random.default_rng(5).standard_normal(1000)
    for score in (-1.0, 0.0, 2.5, 3.0, 10.0):
        assert tail_estimate(scores, score) <= p_value(scores, score)
    assert tail_estimate(np.zeros(50), 1.0) == p_value(np.zeros(50), 1.0)
    assert tail_estimate(np.zeros(3), 1.0) == p_value(np.zeros(3), 1.0)


def test_what_is_not_a_number_counts_against_us() -> None:
    assert p_value(np.zeros(9), float("nan")) == 1.0
    assert p_value(np.full(9, np.nan), 1.0) == 1.0


def test_power_at_a_level_that_too_few_keys_show_is_estimated_and_falls_with_it() -> None:
    """Normal log-likelihood ratios: N(-v/2, v) under the null, N(v/2, v) under the mark."""
    from scipy import stats

    v = 8.0
    drawn = np.random.default_rng(0).normal(-v / 2, np.sqrt(v), 1000)
    found = [power(drawn, level=level) for level in (1e-2, 1e-3, 1e-4, 1e-5)]
    assert found == sorted(found, reverse=True)
    for level, got in zip((1e-3, 1e-4, 1e-5), found[1:], strict=True):
        critical = stats.norm.isf(level, -v / 2, np.sqrt(v))
        assert got == pytest.approx(stats.norm.sf(critical, v / 2, np.sqrt(v)), abs=0.3)
    assert power(np.zeros(1000), level=1e-4) == 0.0
    assert power(drawn[:12], level=1e-4) == 0.0
