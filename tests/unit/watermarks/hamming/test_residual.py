"""The residual of a sentence, and the rule that compares residuals."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.errors import raises_naming
from tests.keys import ball

from hammingmark.errors import InputError
from hammingmark.watermarks._shared.similarity import cosines
from hammingmark.watermarks.hamming import theory
from hammingmark.watermarks.hamming.config import SHARES
from hammingmark.watermarks.hamming.pairs import (
    Alternative,
    Pairs,
    Rule,
    natural_acceptance,
    residual_of,
)
from hammingmark.watermarks.hamming.soft import agreement, soft_acceptance

DIMENSION = 32


def texts(rho: float, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Pairs of unit vectors at one cosine: (2 count, d), first and second alternating."""
    first = rng.standard_normal((count, DIMENSION))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    noise = rng.standard_normal((count, DIMENSION))
    noise -= (noise * first).sum(axis=1, keepdims=True) * first
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    rows = np.empty((2 * count, DIMENSION), np.float32)
    rows[::2], rows[1::2] = first, rho * first + np.sqrt(1 - rho**2) * noise
    return rows


@pytest.mark.parametrize("rho", [-0.6, 0.0, 0.3, 0.9, 0.999])
def test_the_new_part_has_length_one_and_stands_at_right_angles(rho: float) -> None:
    rows = texts(rho, 50, np.random.default_rng(1))
    part = residual_of(rows[::2], rows[1::2], cosines(rows)[::2])
    assert np.allclose(np.linalg.norm(part, axis=1), 1.0, atol=1e-3)
    assert np.allclose((part * rows[::2]).sum(axis=1), 0.0, atol=1e-4)


def test_it_can_be_taken_before_or_after_projecting() -> None:
    rng = np.random.default_rng(2)
    rows = texts(0.4, 20, rng)
    planes = rng.standard_normal((DIMENSION, 8)).astype(np.float32)
    cosine = cosines(rows)[::2]
    direct = residual_of(rows[::2], rows[1::2], cosine) @ planes
    later = residual_of(rows[::2] @ planes, rows[1::2] @ planes, cosine)
    assert np.allclose(direct, later, atol=1e-5)


@pytest.mark.parametrize("preset", SHARES)
@pytest.mark.parametrize("softness", [None, 0.0])
def test_no_rule_accepts_a_copy(preset: str, softness: float | None) -> None:
    rng = np.random.default_rng(3)
    config = ball(preset, softness=softness)
    rule = Rule(config.bits, config.threshold, Alternative(), config.softness, residual=True)
    rows = np.repeat(texts(0.4, 5, rng)[:1], 3, axis=0)
    planes = rng.standard_normal((DIMENSION, 8 * 200)).astype(np.float32)
    projections = (rows @ planes).reshape(3, 200, 8)
    degrees = Pairs(projections, cosines(rows), rule=rule).agreement(config.softness)
    assert (degrees < config.threshold).all()


@pytest.mark.parametrize("softness", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("rho", [-0.3, 0.2, 0.8, 0.97])
def test_the_same_share_is_accepted_at_every_similarity(rho: float, softness: float) -> None:
    """Over keys, the distribution of M is the closed form for unrelated sentences."""
    rng = np.random.default_rng(4)
    rule = Rule(8, 5 if softness == 0.0 else 4.4, Alternative(), softness, residual=True)
    rows = texts(rho, 40, rng)
    planes = rng.standard_normal((DIMENSION, 8 * 500)).astype(np.float32)
    projections = (rows @ planes).reshape(len(rows), 500, 8)
    degrees = Pairs(projections, cosines(rows), rule=rule).agreement(softness)[::2]
    expected = float(natural_acceptance(np.array([rho]), rule=rule)[0])
    unrelated = soft_acceptance(8, rule.threshold, np.array([0.5]), softness=softness)[0]
    assert expected == pytest.approx(unrelated)
    assert float((degrees >= rule.threshold).mean()) == pytest.approx(expected, abs=0.015)


def test_whole_sentences_are_compared_whole() -> None:
    rng = np.random.default_rng(5)
    rows = texts(0.5, 10, rng)
    projections = (rows @ rng.standard_normal((DIMENSION, 24))).reshape(20, 3, 8).astype(np.float32)
    pairs = Pairs(projections, cosines(rows), rule=Rule(8, 6, Alternative()))
    whole = agreement(projections[:-1], projections[1:], softness=0.0)
    assert np.array_equal(pairs.matches(), whole)
    assert np.array_equal(pairs.agreement(0.0), whole)


@pytest.mark.parametrize("preset", SHARES)
def test_a_preset_accepts_its_share(preset: str) -> None:
    config = ball(preset)
    half = theory.match_probability(np.zeros(1))
    actual = soft_acceptance(config.bits, config.threshold, half, softness=config.softness)[0]
    assert config.residual
    assert actual == pytest.approx(SHARES[preset], abs=0.01)


def test_what_is_given_takes_the_place_of_a_presets() -> None:
    paper = ball("paper")
    assert (paper.bits, paper.threshold, paper.softness, paper.residual) == (8, 6, 0.0, False)
    assert ball("paper", bits=16).threshold == 12
    assert ball(residual=False) == paper
    assert ball(bits=16, threshold=9.5).threshold == 9.5
    assert ball(softness=0.0).threshold == 5
    with raises_naming(InputError, "'cheap'", "economical"):
        ball("cheap")
    with raises_naming(InputError, "threshold"):
        ball(residual=False, softness=1.0)
    with raises_naming(InputError, 8, "T = 6"):
        ball(threshold=6)
