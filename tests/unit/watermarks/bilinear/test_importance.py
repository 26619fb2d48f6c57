"""P-values by weighted draws from marked texts."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.unit.watermarks.bilinear.test_marked_scores import WRITTEN, T, scores_of, unmarked

from hammingmark.keys.key import Secret
from hammingmark.stats.compare import TextTest, compare
from hammingmark.stats.nulls import KeyRandomization
from hammingmark.stats.passages import best_windows
from hammingmark.watermarks.bilinear.importance import DRAWS, ImportanceNull
from hammingmark.watermarks.bilinear.marked_scores import MarkedScores


def secret(number: int = 0) -> Secret:
    return Secret(hashlib.sha256(b"importance %d" % number).digest())


@pytest.mark.parametrize("n", [2, 6])
def test_the_level_holds_far_below_one_in_a_hundred(n: int) -> None:
    """P(p <= a) of the whole, of the best window, and of both together, from draws of another
    secret with their weights, which sees levels that drawing unmarked texts would not; four
    standard errors."""
    scores = scores_of(n)
    secrets, levels = 60, np.array([0.05, 0.01, 0.001])
    shares = np.zeros((secrets, 3, len(levels)))
    for number in range(secrets):
        null = ImportanceNull([scores], secret(number))
        section = ImportanceNull([scores], secret(1000 + number))._sections[0]
        increments = section.drawn_increments
        weights = section.weights(increments)
        for k in range(0, increments.shape[1], 5):
            own = increments[:, k]
            best = max((w[2] for w in best_windows(own)), default=0.0)
            whole, window = null.p_value(own), null._sections[0].window_p_value(own, best)
            shares[number, 0] += weights[k] * (whole <= levels)
            shares[number, 1] += weights[k] * (window <= levels)
            joint = null.joint_p_value(own)
            assert min(whole, window) <= joint * (1 + 1e-9)
            shares[number, 2] += weights[k] * (joint <= levels)
    shares /= DRAWS / 5
    errors = shares.std(axis=0) / np.sqrt(secrets)
    assert (shares.mean(axis=0) < levels + 4 * errors).all()
    assert (shares.mean(axis=0)[:, :2] > 0.5 * levels[:2]).all(), "and the tests have power"


@pytest.mark.parametrize("place", [5, 40, 200])
def test_the_whole_and_its_best_window_agree_with_counting(place: int) -> None:
    """Among 4,000 unmarked texts; importance sampling errs here by at most a fifth."""
    scores, count = scores_of(30), 4000
    null = ImportanceNull([scores], secret())
    other = scores.log_ratios(unmarked(scores, count))
    own = other[:, np.argsort(-other.sum(axis=0))[place]]
    parts = (own, null.best, np.zeros(30))
    weighed = compare(TextTest(*parts, null, is_ratio=True), limit=1)
    counted = compare(
        TextTest(*parts, KeyRandomization(lambda: iter([iter([other])])), is_ratio=True),
        limit=count,
    )
    pairs = [(weighed.p_value, counted.p_value)]
    pairs += [(weighed.windows[0].p_value, counted.windows[0].p_value)]
    for one, by_counting in pairs:
        spread = np.sqrt(by_counting * (1 - by_counting) / count)
        assert abs(one - by_counting) < 4 * spread + 0.2 * by_counting
    assert weighed.references == DRAWS


@pytest.mark.parametrize("n", [5, 9, 12, 20, 40])
def test_a_p_value_goes_as_deep_as_the_evidence(n: int) -> None:
    """Independent sentences as written: all at least T has probability a to the n. Half of the
    draws tie with such a text, and count, in whatever order they were added up."""
    scores = MarkedScores(T, np.eye(n), np.ones(n, bool), (WRITTEN,))
    null = ImportanceNull([scores], secret())
    own = scores.log_ratios(np.full((n, 1), 2.0))[:, 0]
    every = n * np.log(stats.norm.sf(T))
    assert np.log(null.p_value(own)) == pytest.approx(every, abs=0.7)
    assert null.p_value(own) >= np.exp(every) * 0.5
    window = null.window_p_value(own, slice(0, n))
    assert np.log(window) == pytest.approx(every, abs=0.7), "no other window is as good"


def test_a_marked_passage_has_a_small_p_value_and_the_rest_has_not() -> None:
    scores = scores_of(60)
    rng = np.random.default_rng(4)
    inside = (np.arange(60) >= 20) & (np.arange(60) < 34)
    increments = scores.draw(inside[:, None], rng.random((60, 3, 1)))[:, 0]
    null = ImportanceNull([scores], secret())
    found = compare(TextTest(increments, null.best, np.zeros(60), null, is_ratio=True), limit=1)
    best = found.windows[0]
    assert best.p_value < 1e-3
    assert abs(best.begin - 20) <= 3
    assert abs(best.end - 34) <= 3
    assert found.windows == tuple(sorted(found.windows, key=lambda each: each.p_value))


def test_a_long_text_is_tested_section_by_section() -> None:
    """The p-value is the smallest of the sections times their number."""
    first, second = scores_of(8, seed=6), scores_of(5, seed=7)
    null = ImportanceNull([first, second], secret())
    rng = np.random.default_rng(8)
    marked = [part.draw(np.ones((n, 1), bool), rng.random((n, 3, 1)))[:, 0] for part, n in
              ((first, 8), (second, 5))]  # fmt: skip
    plain = np.full(5, -0.5)
    alone = ImportanceNull([first], secret())
    assert null.p_value(np.r_[marked[0], plain]) == 2 * alone.p_value(marked[0])
    assert null.best.shape == (13,)
    own = np.r_[np.full(8, -0.5), marked[1]]
    assert null.p_value(own) < 1.0
    window = slice(6, 13)  # two sentences of the first section, five of the second
    assert null.window_p_value(own, window) == null.window_p_value(own, slice(8, 13))
    blocks = next(null.blocks())
    assert [block.shape for block in blocks] == [(8, DRAWS), (5, DRAWS)]


def test_power_is_how_often_marked_texts_reach_the_level() -> None:
    scores = scores_of(5)
    rng = np.random.default_rng(9)
    increments = scores.draw(np.ones((5, 400), bool), rng.random((5, 3, 400)))
    found = [
        ImportanceNull([scores], secret(k)).p_value(increments[:, k]) <= 0.05 for k in range(400)
    ]
    power = ImportanceNull([scores], secret()).power(0.05).mean
    assert power is not None
    assert power == pytest.approx(np.mean(found), abs=0.12)
    assert 0.1 < power < 0.9, "so that the test can tell"
    deep = ImportanceNull([scores], secret()).power(1e-9).mean
    assert deep is not None
    assert deep < power


@pytest.mark.parametrize("n", [1, 2])
def test_no_more_texts_are_found_after_rewording(n: int) -> None:
    """Of so short ones about as many, so that one estimate or the other is larger by chance."""
    for number in range(8):
        null = ImportanceNull([scores_of(n)], secret(number))
        for level in (0.001, 0.01, 0.05):
            power = null.power(level)
            assert power.as_written is not None
            assert power.reworded is not None
            assert power.reworded <= power.as_written


def test_hardly_any_marked_text_does_better_than_what_is_attainable() -> None:
    """About one in 1,000 exceeds the best of 1,000 draws, of which half are wholly marked."""
    scores, count = scores_of(5), 400
    null = ImportanceNull([scores], secret())
    uniforms = np.random.default_rng(10).random((5, 3, count))
    increments: NDArray[np.float64] = scores.draw(np.ones((5, count), bool), uniforms)
    better = np.mean([null.p_value(column) < null.attainable for column in increments.T])
    assert better < 0.02
    assert null.attainable > 0.0
    nothing = MarkedScores(T, np.zeros((3, 3)), np.zeros(3, bool))
    assert ImportanceNull([nothing], secret()).attainable == pytest.approx(1.0)
