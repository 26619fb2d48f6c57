"""The increments of transitions to each statistic."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hammingmark.watermarks._shared.similarity import cosines
from hammingmark.watermarks.hamming import theory
from hammingmark.watermarks.hamming.pairs import Alternative, Pairs, Rule, grid_steps
from hammingmark.watermarks.hamming.statistics import STATISTICS, few_mismatches

RULE = Rule(8, 6, Alternative())


def projections(n: int = 6, k: int = 50, m: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, k, m), dtype=np.float32)


def matches(values: np.ndarray) -> np.ndarray:
    bits = values >= 0
    return (bits[1:] == bits[:-1]).sum(axis=-1)


SIMILARITY = np.array([0.0, 0.2, 0.5, 0.8, -0.3])


def increments(
    values: np.ndarray, similarity: np.ndarray, *, statistic: str, rule: Rule
) -> np.ndarray:
    return STATISTICS[statistic](rule).increments(Pairs(values, similarity, rule=rule))


def test_edge_vote_and_global_bits_are_the_papers() -> None:
    values = projections()
    edge = increments(values, SIMILARITY, statistic="edge_vote", rule=RULE)
    bits = increments(values, SIMILARITY, statistic="global_bits", rule=RULE)
    np.testing.assert_array_equal(edge, matches(values) >= 6)
    np.testing.assert_allclose(bits, matches(values) / 8)


def test_likelihood_is_the_closed_form() -> None:
    values = projections()
    actual = increments(values, SIMILARITY, statistic="likelihood", rule=RULE)
    p = theory.match_probability(SIMILARITY)
    table = theory.log_likelihood_ratio(8, 6, p, 0.02, 0.05, rest=p)
    expected = np.take_along_axis(table, matches(values), axis=1)
    np.testing.assert_allclose(actual, expected, atol=0.01)  # p is told apart in 4,096 steps


@pytest.mark.parametrize("cosine", [0.0, 0.4, 0.8])
def test_margin_is_its_formula(cosine: float) -> None:
    values = projections(n=2, k=4)
    actual = increments(values, np.array([cosine]), statistic="margin", rule=RULE)[0]
    a = RULE.alternative
    sure = np.tanh(values / a.blur)
    agree = 0.5 + 0.5 * (1 - 2 * a.flip) * sure[0] * sure[1]
    match = (values[0] >= 0) == (values[1] >= 0)
    untouched = np.where(match, 1 - a.flip, a.flip)
    natural = float(stats.binom.sf(5, 8, 1 - np.arccos(cosine) / np.pi))
    for key in range(4):
        accepted = (1 - a.edited) * tail(untouched[key]) + a.edited * tail(agree[key])
        expected = np.log(a.free + (1 - a.free) * accepted / natural)
        assert actual[key] == pytest.approx(expected, abs=0.01)  # p is told apart in 4,096 steps


def tail(match: np.ndarray) -> float:
    """P(at least 6 of 8 match), by trying every pattern."""
    return sum(
        float(np.prod(np.where(pattern, match, 1 - match)))
        for pattern in product([True, False], repeat=8)
        if sum(pattern) >= 6
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=11), st.integers(0, 11))
def test_few_mismatches_is_the_poisson_binomial_tail(match: list[float], allowed: int) -> None:
    allowed = min(allowed, len(match))
    pmf = np.ones(1)
    for p in match:
        pmf = np.convolve(pmf, [p, 1 - p])
    actual = few_mismatches(np.array(match, np.float32)[:, None], allowed)
    assert float(actual[0]) == pytest.approx(float(pmf[: allowed + 1].sum()), abs=1e-5)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize(("bits", "threshold"), [(8, 6), (4, 3), (16, 12), (5, 0), (7, 7)])
def test_no_key_does_better_than_the_best(statistic: str, bits: int, threshold: int) -> None:
    rule = Rule(bits, threshold, Alternative())
    values = 3 * projections(m=bits, k=500)
    values[:, 0] = 50.0  # a key under which every bit of every sentence agrees
    actual = increments(values, SIMILARITY, statistic=statistic, rule=rule)
    best = STATISTICS[statistic](rule).best(grid_steps(SIMILARITY, rule=rule))
    assert np.isfinite(actual).all()
    assert (actual <= best[:, None] + 1e-6).all()
    if statistic != "margin":
        np.testing.assert_allclose(actual[:, 0], best, atol=1e-12)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_text_in_chunks_gives_the_same(statistic: str) -> None:
    values = projections()
    whole = increments(values, SIMILARITY, statistic=statistic, rule=RULE)
    parts = [
        increments(values[:3], SIMILARITY[:2], statistic=statistic, rule=RULE),
        increments(values[2:], SIMILARITY[2:], statistic=statistic, rule=RULE),
    ]
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-6)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_unmarked_transitions_pull_windows_down(statistic: str) -> None:
    """Over keys, increments less their centre have a negative mean, so that windows can end."""
    rng = np.random.default_rng(3)
    cosine = 0.4
    first = rng.standard_normal((1, 20_000, 8))
    second = cosine * first + np.sqrt(1 - cosine**2) * rng.standard_normal(first.shape)
    pair = np.concatenate([first, second]).astype(np.float32)
    actual = increments(pair, np.array([cosine]), statistic=statistic, rule=RULE)
    centre = STATISTICS[statistic](RULE).centre(grid_steps(np.array([cosine]), rule=RULE))
    assert float((actual - centre[:, None]).mean()) < -0.05


@given(st.floats(-1, 1))
def test_likelihood_ratios_are_finite_at_any_similarity(cosine: float) -> None:
    for statistic in STATISTICS:
        similarity = np.array([cosine])
        actual = increments(projections(n=2), similarity, statistic=statistic, rule=RULE)
        assert np.isfinite(actual).all()
        steps = grid_steps(similarity, rule=RULE)
        assert np.isfinite(STATISTICS[statistic](RULE).best(steps)).all()


def test_cosines_of_neighbours() -> None:
    rows = np.array([[1, 0], [0, 1], [0, 1], [-1, 0]], np.float32)
    np.testing.assert_allclose(cosines(rows), [0, 1, 0])
    assert cosines(rows[:1]).shape == (0,)
    assert cosines(rows[:0]).shape == (0,)
