"""The likelihood ratio of a normal score, and the acceptance rate that a rule needs."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.watermarks.bilinear.deviates import (
    Alternative,
    acceptance_for,
    log_likelihood_ratio,
)


def test_longer_texts_and_weaker_claims_need_less() -> None:
    by_length = [acceptance_for(20.0, n) for n in (9, 18, 45, 90)]
    assert by_length == sorted(by_length)
    by_bits = [acceptance_for(bits, 45) for bits in (10.0, 20.0, 30.0)]
    assert by_bits == sorted(by_bits, reverse=True)
    assert acceptance_for(20.0, 45, power=0.99) < acceptance_for(20.0, 45)


@pytest.mark.parametrize(("bits", "transitions"), [(10.0, 9), (20.0, 45)])
def test_texts_of_the_alternative_prove_as_much_as_asked_for(bits: float, transitions: int) -> None:
    """Simulated: half of the sentences reworded, one in twenty free; 4,000 texts."""
    a = acceptance_for(bits, transitions)
    alternative, threshold = Alternative(), NormalDist().inv_cdf(1.0 - a)
    rng = np.random.default_rng(7)
    shape = (4000, transitions)
    uniform = rng.uniform(1.0 - a, 1.0, size=shape)
    marked = np.vectorize(NormalDist().inv_cdf)(uniform)
    noise = rng.standard_normal(shape)
    reworded = alternative.correlation * marked + np.sqrt(1.0 - alternative.correlation**2) * noise
    scores = np.where(rng.random(shape) < alternative.edited, reworded, marked)
    scores = np.where(rng.random(shape) < alternative.free, rng.standard_normal(shape), scores)
    increments = log_likelihood_ratio(a, threshold, alternative)
    sums = increments.of(scores).sum(axis=1)
    share = np.mean([increments.survival(transitions, each) <= 2.0**-bits for each in sums])
    assert 0.9 - 0.02 < share < 0.93, "no stricter than it must be"


def test_what_cannot_be_proved_is_said() -> None:
    with raises_naming(InputError, 3, "2^-30"):
        acceptance_for(30.0, 3)
