"""Metrics of scores."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.errors import InputError
from hammingmark.evaluation.metrics import (
    LIBRARIES,
    auroc,
    bootstrap,
    found_at,
    mean_interval,
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


def test_a_bootstrap_interval_has_its_coverage() -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(120):
        sample = rng.normal(2.0, 1.0, size=80)
        low, high = bootstrap(lambda x: float(np.mean(x)), sample, rng=rng, rounds=200)
        inside += low <= 2.0 <= high
    assert 103 <= inside <= 120  # 95 % of 120 is 114; 103 is 4.5 deviations below


def test_an_interval_over_keys_is_wider_than_one_over_texts() -> None:
    rng = np.random.default_rng(2)
    apart = {0: [0.0] * 50, 1: [1.0] * 50, 2: [0.0] * 50, 3: [1.0] * 50}
    mixed = {key: [0.0, 1.0] * 25 for key in range(4)}
    wide, narrow = (mean_interval(groups, rng=rng, rounds=200) for groups in (apart, mixed))
    assert wide.value == narrow.value == 0.5
    assert wide.low < narrow.low < 0.5 < narrow.high < wide.high
    assert str(mean_interval({0: [1.0, 1.0]}, rng=rng)) == "1.00 (1.00 to 1.00)"
    with pytest.raises(InputError):
        mean_interval({0: []}, rng=rng)


def test_one_text_has_no_spread() -> None:
    rng = np.random.default_rng(0)
    assert bootstrap(lambda x: float(np.mean(x)), [3.0], rng=rng) == (3.0, 3.0)


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_the_libraries_the_extra_is_named(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError) as refused:
        auroc([1.0], [0.0])
    assert "'scikit-learn>=" in str(refused.value)


def test_the_core_installation_needs_neither() -> None:
    rooms = "metrics, quality, scores, stages, tables, keys, rows, prompts, natural"
    code = f"""
import sys
from hammingmark.evaluation import {rooms}
from hammingmark.evaluation.datasets import corpora
sys.exit(bool({{"sklearn", "scipy", "pyarrow", "torch"}} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
