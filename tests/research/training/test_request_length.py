"""Simulated searches: longer requests are fewer, and draw more."""

from __future__ import annotations

import numpy as np
import pytest
from research.training.request_length import search

from hammingmark.generation.stopping import Stages, stages_at_once


def test_longer_requests_are_fewer_and_draw_more() -> None:
    """The differences are five standard errors or more; the searches are the same in every run."""
    stages = Stages(0.8)
    means = []
    for at_once in (1, 3, 20):
        rng = np.random.default_rng(1)
        means.append(np.mean([search(stages, at_once, rng) for _ in range(400)], axis=0))
    tokens, requests, embeddings = np.array(means).T
    assert tokens[0] < tokens[1] < tokens[2]
    assert requests[0] > 1.8 * requests[1] > 2.5 * requests[2]
    assert embeddings[0] < embeddings[1] < embeddings[2]


@pytest.mark.parametrize(("price", "stages"), [(0.0, 1), (1.0, 2), (5.0, 3), (10.0, 4)])
def test_a_dearer_request_goes_through_more_stages(price: float, stages: int) -> None:
    assert stages_at_once(price) == stages
