"""The tournament: the published formulas, and their guarantees."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from hammingmark.watermarks.synthid.tournament import play

RNG = np.random.default_rng(0)
SHARES = RNG.dirichlet(np.full(12, 0.5), size=4)


def test_matches_of_two_are_those_of_transformers() -> None:
    torch = pytest.importorskip("torch")
    process = pytest.importorskip("transformers.generation.logits_process")
    bits = np.random.default_rng(1).integers(0, 2, size=(4, 12, 30))
    theirs = process.SynthIDTextWatermarkLogitsProcessor.update_scores(
        None, torch.from_numpy(np.log(SHARES)), torch.from_numpy(bits)
    )
    np.testing.assert_allclose(play(SHARES, bits), np.exp(theirs.numpy()), atol=1e-12)


def test_numpy_and_torch_play_alike() -> None:
    torch = pytest.importorskip("torch")
    bits = np.random.default_rng(2).integers(0, 2, size=(4, 12, 6))
    for leaves in (2, 5):
        actual = play(torch.from_numpy(SHARES), torch.from_numpy(bits), leaves=leaves).numpy()
        np.testing.assert_allclose(play(SHARES, bits, leaves=leaves), actual, atol=1e-12)


def test_over_all_bits_a_match_of_two_keeps_the_distribution() -> None:
    """Every outcome of fair bits of four tokens at two depths, and their mean."""
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    every = np.array(list(product((0, 1), repeat=8))).reshape(-1, 4, 2)
    outcomes = play(np.broadcast_to(shares, (len(every), 4)), every)
    np.testing.assert_allclose(outcomes.mean(axis=0), shares, atol=1e-12)
    assert np.abs(outcomes - shares).max() > 0.3  # no outcome is idle
    uneven = play(np.broadcast_to(shares, (len(every), 4)), every, leaves=3)
    assert np.abs(uneven.mean(axis=0) - shares).max() > 0.005


def test_a_match_of_k_keeps_a_green_token_if_one_of_k_is_green() -> None:
    shares = np.array([0.2, 0.3, 0.5])
    bits = np.array([1, 0, 0])[:, None]
    won = play(shares, bits, leaves=4)
    assert won[0] == pytest.approx(1 - 0.8**4)
    assert won[1] / won[2] == pytest.approx(0.3 / 0.5)
    assert won.sum() == pytest.approx(1.0)


def test_bits_that_are_all_alike_change_nothing() -> None:
    for bits in (np.zeros((4, 12, 3), np.int64), np.ones((4, 12, 3), np.int64)):
        np.testing.assert_allclose(play(SHARES, bits, leaves=3), SHARES, atol=1e-12)


def test_no_share_falls_below_zero() -> None:
    """If rounding makes the green shares sum to more than 1, a red share is 0."""
    shares = np.array([0.1] * 10 + [1e-9], np.float32)
    bits = np.array([1] * 10 + [0])[:, None]
    assert shares[:10].astype(np.float64).sum() > 1.0
    assert (play(shares, bits) >= 0.0).all()
