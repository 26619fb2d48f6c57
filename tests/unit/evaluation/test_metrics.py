"""How well scores tell texts apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.errors import InputError
from hammingmark.evaluation.metrics import (
    auroc,
    bootstrap,
    found_at,
    mean_repetition,
    near_copies,
    threshold_at,
)

scores = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


@given(scores, scores)
def test_auroc_is_the_share_of_pairs_in_the_right_order(
    high: list[float], low: list[float]
) -> None:
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in high for b in low]
    assert auroc(high, low) == pytest.approx(np.mean(pairs))
    assert auroc(high, low) == pytest.approx(1.0 - auroc(low, high))


@given(scores, st.sampled_from([0.01, 0.05, 0.2, 0.5]))
def test_a_threshold_keeps_its_level_on_the_texts_that_set_it(
    low: list[float], level: float
) -> None:
    bar = threshold_at(low, level)
    assert np.mean(np.array(low) > bar) <= level
    lower = [each for each in low if each < bar]
    if lower:  # and no lower one would
        assert np.mean(np.array(low) > max(lower)) > level


def test_shares() -> None:
    assert found_at([0.01, 0.02, 0.001], 0.01) == pytest.approx(2 / 3)
    for wrong in ([], [float("nan")]):
        with pytest.raises(InputError):
            auroc(wrong, [1.0])
    with pytest.raises(InputError):
        threshold_at([1.0], 1.5)


def test_a_bootstrap_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(120):
        sample = rng.normal(2.0, 1.0, size=80)
        low, high = bootstrap(lambda x: float(np.mean(x)), sample, rng=rng, rounds=200)
        inside += low <= 2.0 <= high
    assert 103 <= inside <= 120  # 95 % of 120 is 114; 103 is 4.5 deviations below


def test_repetition_counts_runs_said_before() -> None:
    assert mean_repetition(["one two three four five"]) == 0.0
    said_twice = "One two three four. one two, three four!"
    assert mean_repetition([said_twice]) == pytest.approx(1 / 5)
    assert mean_repetition(["too short"]) == 0.0
    assert mean_repetition(["a b c d a b c d", "e f g h"]) == pytest.approx(1 / 6)
    assert mean_repetition([]) == 0.0
    with pytest.raises(InputError):
        mean_repetition(["a b"], n=0)


def test_near_copies_are_sentences_that_mostly_came_before() -> None:
    said = "The old mill by the river burned down."
    assert near_copies([[said, "Nobody saw it happen that night.", said]]) == pytest.approx(1 / 3)
    assert near_copies([[said], [said]]) == 0.0  # each text for itself
    half = "The old mill by the lake was never rebuilt again."
    assert near_copies([[said, half]]) == 0.0
    assert near_copies([["Yes.", "No.", "Yes."]]) == pytest.approx(1 / 3)
    assert near_copies([[], ["..."]]) == 0.0
