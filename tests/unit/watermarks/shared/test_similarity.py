"""Rules by the share of natural text that they accept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.watermarks._shared.similarity import central_interval, share_inside, threshold_for


@given(st.integers(0, 2**32 - 1), st.floats(0.02, 0.98))
def test_rules_let_as_much_pass_as_is_wanted(seed: int, share: float) -> None:
    sample = np.sort(np.random.default_rng(seed).standard_normal(2000))
    low, high = central_interval(sample, share)
    assert share_inside(sample, low, high) == pytest.approx(share, abs=0.005)
    below, above = (sample < low).mean(), (sample > high).mean()
    assert below == pytest.approx(above, abs=0.005)
    reached = share_inside(sample, threshold_for(sample, share), np.inf)
    assert reached == pytest.approx(share, abs=0.005)


def test_a_share_is_never_none_or_all() -> None:
    sample = np.linspace(0, 1, 100)
    assert share_inside(sample, 2.0, 3.0) == 0.005
    assert share_inside(sample, -1.0, 3.0) == 0.995
