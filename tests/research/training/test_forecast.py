"""What an encoder's figures promise."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from research.training.forecast import candidates, evidence, threshold_at, threshold_of


def test_independent_candidates_cost_one_over_their_acceptance() -> None:
    assert candidates(threshold_of(0.3), 0.0) == pytest.approx(1 / 0.3, rel=1e-6)


def test_candidates_that_are_alike_cost_more() -> None:
    costs = [candidates(threshold_of(0.3), tau2) for tau2 in (0.0, 0.1, 0.2, 0.3)]
    assert costs == sorted(costs)
    # Candidates drawn one by one: about 4.4 each, and their mean over 20,000 contexts has a
    # standard error of 1 %.
    rng = np.random.default_rng(0)
    left = 0.2**0.5 * rng.standard_normal(20_000)
    drawn = 0
    while len(left):
        drawn += len(left)
        left = left[left + 0.8**0.5 * rng.standard_normal(len(left)) < threshold_of(0.3)]
    assert costs[2] == pytest.approx(drawn / 20_000, rel=0.06)


def test_a_threshold_costs_what_it_was_chosen_for() -> None:
    for tau2 in (0.0, 0.15, 0.3):
        assert candidates(threshold_at(2.6, tau2), tau2) == pytest.approx(2.6, rel=1e-6)


def test_evidence_as_written_is_the_acceptance_in_bits() -> None:
    """Independent candidates at cost 2.6 give log2 2.6 bits, less what doubt takes."""
    found = evidence(np.ones(1), tau2=0.0, cost=2.6)
    assert np.log2(2.6) - 0.2 < found < np.log2(2.6)


def test_evidence_falls_with_what_rewriting_takes_and_with_likeness() -> None:
    values = [evidence(np.full(9, kept), tau2=0.1, cost=2.6) for kept in (1.0, 0.9, 0.7, 0.4)]
    assert values == sorted(values, reverse=True)
    assert evidence(np.full(9, 0.9), tau2=0.3, cost=2.6) < values[1]


def test_what_has_nothing_left_proves_nothing() -> None:
    assert evidence(np.zeros(1), tau2=0.0, cost=2.6) == pytest.approx(0.0, abs=0.02)
