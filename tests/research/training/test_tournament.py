"""Fitting what g-values look like in marked text."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from research.training.tournament import fit, log_ratios, winners


def test_winners_have_more_ones_where_the_model_is_less_sure() -> None:
    rng = np.random.default_rng(0)
    even = winners(np.full((4000, 20), 0.05, np.float32), depth=6, rng=rng)
    sure = winners(np.repeat([[0.98, 0.02]], 4000, axis=0), depth=6, rng=rng)
    assert even.shape == sure.shape == (4000, 6)
    # Two of 20 even tokens differ 19 times in 20, and then the better one wins.
    assert even[:, 0].mean() == pytest.approx(0.5 + 0.95 / 4, abs=4 * 0.5 / np.sqrt(4000))
    assert sure[:, 0].mean() == pytest.approx(0.5 + 2 * 0.98 * 0.02 / 4, abs=4 * 0.5 / 4000**0.5)


def test_a_fit_finds_what_two_tokens_differ_by() -> None:
    """Half of the places are sure and half are not, so that earlier ones tell of later ones."""
    rng = np.random.default_rng(1)
    shares = np.zeros((20_000, 20), np.float32)
    shares[::2] = 0.05
    shares[1::2, 0] = 1.0
    bits = winners(shares, depth=5, rng=rng)
    level, slope = fit(bits[:10_000])
    held = torch.from_numpy(bits[10_000:])
    known, flat = (
        float(log_ratios(held, torch.from_numpy(level), torch.from_numpy(each)).mean())
        for each in (slope, np.zeros(5))
    )
    # Probability that two tokens of a random place differ: half of 0.95.
    assert 1 / (1 + np.exp(-level[0])) == pytest.approx(0.475, abs=0.06)
    assert (slope[2:] > 0.1).all()
    assert known > flat > 0.05
