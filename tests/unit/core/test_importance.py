"""P-values by weighed draws from marked texts."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.unit.core.test_marked_scores import WRITTEN, T, scores_of, unmarked

from hammingmark.core.compare import TextTest, compare
from hammingmark.core.importance import DRAWS, ImportanceNull
from hammingmark.core.marked_scores import MarkedScores
from hammingmark.core.nulls import KeyRandomization
from hammingmark.keys import Secret


def secret(number: int = 0) -> Secret:
    return Secret(hashlib.sha256(b"importance %d" % number).digest())


def test_p_values_are_uniform_over_unmarked_texts() -> None:
    """Of 600 texts with other draws each: shares at most four standard errors off, and no idler."""
    scores = scores_of(9)
    told = scores.log_ratios(unmarked(scores, 600))
    p = np.array([ImportanceNull([scores], secret(k)).p_value(told[:, k]) for k in range(600)])
    for level in (0.01, 0.05, 0.2, 0.5):
        assert abs((p <= level).mean() - level) < 4 * np.sqrt(level * (1 - level) / 600)


@pytest.mark.parametrize("place", [5, 40, 200])
def test_the_whole_and_its_best_window_agree_with_counting(place: int) -> None:
    """Among 4,000 unmarked texts; importance sampling errs by a tenth at most here."""
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


def test_a_p_value_goes_as_deep_as_the_evidence() -> None:
    """Forty independent sentences as written: all at least T has probability a to the fortieth."""
    scores = MarkedScores(T, np.eye(40), np.ones(40, bool), (WRITTEN,))
    null = ImportanceNull([scores], secret())
    own = scores.log_ratios(np.full((40, 1), 2.0))[:, 0]
    every = 40 * np.log(stats.norm.sf(T))
    assert np.log(null.p_value(own)) == pytest.approx(every, abs=0.7)
    assert null.p_value(own) >= np.exp(every) * 0.5
    window = null.window_p_value(own, slice(0, 40))
    assert np.log(window) == pytest.approx(every, abs=0.7), "no other window is as good"


def test_a_marked_passage_has_a_small_p_value_and_the_rest_has_not() -> None:
    scores = scores_of(60)
    rng = np.random.default_rng(4)
    inside = (np.arange(60) >= 20) & (np.arange(60) < 34)
    told = scores.draw(inside[:, None], rng.random((60, 3, 1)))[:, 0]
    null = ImportanceNull([scores], secret())
    found = compare(TextTest(told, null.best, np.zeros(60), null, is_ratio=True), limit=1)
    best = found.windows[0]
    assert best.p_value < 1e-3
    assert abs(best.begin - 20) <= 3
    assert abs(best.end - 34) <= 3
    assert found.windows == tuple(sorted(found.windows, key=lambda each: each.p_value))


def test_a_long_text_is_tested_section_by_section() -> None:
    """The p-value is the smallest times their number, whichever it is."""
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
    told = scores.draw(np.ones((5, 400), bool), rng.random((5, 3, 400)))
    found = [ImportanceNull([scores], secret(k)).p_value(told[:, k]) <= 0.05 for k in range(400)]
    power = ImportanceNull([scores], secret()).power(0.05)
    assert power is not None
    assert power == pytest.approx(np.mean(found), abs=0.12)
    assert 0.1 < power < 0.9, "so that the test can tell"
    deep = ImportanceNull([scores], secret()).power(1e-9)
    assert deep is not None
    assert deep < power


def test_no_draw_is_better_than_what_is_attainable() -> None:
    scores = scores_of(5)
    null = ImportanceNull([scores], secret())
    told: NDArray[np.float64] = scores.log_ratios(np.full((5, 1), 2.0))[:, 0]
    assert 0.0 < null.attainable < null.p_value(told)
