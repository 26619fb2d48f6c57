"""The soft ball: its limit, its distribution, and the effect of rewording."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.watermarks.hamming import theory
from hammingmark.watermarks.hamming.soft import (
    accepted_before,
    agreement,
    soft_acceptance,
    soft_moments,
    threshold_for,
    widened,
)


def pairs(cosine: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Projections of sentences of this similarity under independent keys: (count, 8) twice."""
    rng = np.random.default_rng(seed)
    x, noise = rng.standard_normal((2, count, 8))
    return x.astype(np.float32), (cosine * x + np.sqrt(1 - cosine**2) * noise).astype(np.float32)


@given(st.integers(0, 1000))
def test_without_softness_bits_are_counted(seed: int) -> None:
    x, y = pairs(0.3, 5, seed)
    counted = ((x >= 0) == (y >= 0)).sum(axis=1)
    assert np.array_equal(agreement(x, y, softness=0.0), counted)
    assert np.allclose(agreement(x, y, softness=1e-6), counted, atol=0.01)


@pytest.mark.parametrize("softness", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("cosine", [-0.3, 0.0, 0.4, 0.8])
def test_the_distribution_is_that_of_samples(softness: float, cosine: float) -> None:
    x, y = pairs(cosine, 40_000, 7)
    degree = agreement(x, y, softness=softness)
    p = theory.match_probability(np.array([cosine]))
    mean, spread = soft_moments(p, softness=softness)
    assert degree.mean() / 8 == pytest.approx(mean[0], abs=0.003)
    assert degree.std() / np.sqrt(8) == pytest.approx(spread[0], abs=0.005)
    for threshold in (4.0, 4.75, 5.5):
        expected = soft_acceptance(8, threshold, p, softness=softness)[0]
        assert (degree >= threshold).mean() == pytest.approx(expected, abs=0.01)


def test_a_hard_ball_is_the_limit() -> None:
    p = np.linspace(0.05, 0.95, 7)
    hard = theory.acceptance(8, 6, p)
    assert np.allclose(soft_acceptance(8, 6, p, softness=0.0), hard)
    # A shade below 6, so that rounding cannot decide whether six whole bits are enough.
    assert np.allclose(soft_acceptance(8, 5.9, p, softness=0.002), hard, atol=0.02)
    with raises_naming(InputError, 5.5):
        soft_acceptance(8, 5.5, p, softness=0.0)


@pytest.mark.parametrize("softness", [0.0, 0.5])
def test_a_threshold_for_a_share(softness: float) -> None:
    T = threshold_for(8, 0.36, 0.3, softness=softness)
    p = theory.match_probability(np.array([0.3]))
    actual = soft_acceptance(8, T, p, softness=softness)[0]
    assert actual == pytest.approx(0.36, abs=0.005 if softness else 0.12)
    with pytest.raises(InputError):
        threshold_for(8, 1.0, 0.3, softness=softness)


@pytest.mark.parametrize("blur", [0.1, 0.3])
def test_what_was_accepted_before_rewording_is_estimated_well(blur: float) -> None:
    """In each bucket of estimates, the share that was inside before agrees with them."""
    rng = np.random.default_rng(3)
    x, y = pairs(0.3, 60_000, 5)
    before = agreement(x, y, softness=0.5) >= 5.3
    # What a reworded text looks like, with the deviation of a standard normal kept.
    kept = np.sqrt(1 - blur**2)
    now = [
        (kept * each + blur * rng.standard_normal(each.shape)).astype(np.float32) for each in (x, y)
    ]
    wide = widened(0.5, blur)
    sure = [np.tanh(each / np.float32(wide)) for each in now]
    chance = accepted_before(*sure, threshold=5.3, wide=wide, blur=blur)
    for low in np.arange(0.05, 0.95, 0.15):
        inside = (chance >= low) & (chance < low + 0.15)
        assert before[inside].mean() == pytest.approx(chance[inside].mean(), abs=0.12)


def test_rewording_undoes_fewer_soft_matches_than_hard_ones() -> None:
    """At equal acceptance, more of the accepted transitions are still inside after rewording."""
    rng = np.random.default_rng(11)
    x, y = pairs(0.3, 100_000, 13)
    moved = [
        (np.sqrt(1 - 0.04) * each + 0.2 * rng.standard_normal(each.shape)).astype(np.float32)
        for each in (x, y)
    ]
    shift = {}
    share = float((agreement(x, y, softness=0.0) >= 6).mean())
    for softness in (0.0, 0.5, 1.0):
        degree = agreement(x, y, softness=softness)
        inside = degree >= (6 if softness == 0.0 else np.quantile(degree, 1 - share))
        later = agreement(moved[0], moved[1], softness=softness)
        shift[softness] = (later[inside].mean() - later.mean()) / later.std()
    limit = theory.selection_shift(share)
    print(shift, "of at most", float(limit))
    assert shift[1.0] > shift[0.5] > shift[0.0]
    assert shift[1.0] < float(limit)
