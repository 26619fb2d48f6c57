"""Corrections for the number of texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from hammingmark.stats.multiplicity import benjamini_hochberg, benjamini_yekutieli, holm

# Tenths make ties, and sixteenths make p-values that equal a bound.
P_VALUES = st.lists(
    st.one_of(st.floats(0.0, 1.0), st.integers(0, 10).map(lambda n: n / 10)), max_size=40
)
Procedure = Callable[[Sequence[float], float], float | None]


def standing(procedure: Procedure, p_values: Sequence[float], rate: float) -> list[bool]:
    largest = procedure(p_values, rate)
    return [largest is not None and p <= largest for p in p_values]


@given(p_values=P_VALUES)
@pytest.mark.parametrize(
    ("procedure", "method"), [(benjamini_hochberg, "bh"), (benjamini_yekutieli, "by")]
)
def test_false_discoveries_are_controlled_as_scipy_does(
    p_values: list[float], procedure: Procedure, method: str
) -> None:
    rate = 0.0501  # a rate that no p-value meets exactly, where rounding would decide
    adjusted = false_discovery_control(p_values, method=method) if p_values else np.array([])
    assert standing(procedure, p_values, rate) == (adjusted <= rate).tolist()


@given(p_values=P_VALUES)
def test_holm_is_the_closure_of_bonferroni(p_values: list[float]) -> None:
    """A p-value stands as long as each smaller one stood at its own, stricter level."""
    rate, stands = 0.0501, set()
    for rank, number in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[number] > rate / (len(p_values) - rank):
            break
        stands.add(int(number))
    assert standing(holm, p_values, rate) == [n in stands for n in range(len(p_values))]


@pytest.mark.parametrize("procedure", [holm, benjamini_hochberg, benjamini_yekutieli])
def test_one_p_value_needs_no_correction(procedure: Procedure) -> None:
    assert procedure([0.01], 0.01) == 0.01
    assert procedure([0.011], 0.01) is None
    assert procedure([], 0.01) is None
