"""Records that refuse what makes no sense."""

from __future__ import annotations

import math

import pytest
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.records import Sampling


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": math.nan},
        {"min_p": -0.1},
        {"min_p": 1.5},
    ],
)
def test_sampling_refuses_what_is_out_of_range(wrong: dict[str, float]) -> None:
    with raises_naming(InputError, *wrong, *wrong.values()):
        Sampling(**wrong)  # type: ignore[arg-type]


def test_sampling_takes_the_ends_of_its_ranges() -> None:
    Sampling(temperature=0.0, top_k=0, top_p=1.0, min_p=1.0)


@pytest.mark.parametrize(
    "named", [{"temperature": 0.0}, {"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}]
)
def test_greedy_is_whatever_leaves_one_token(named: dict[str, float]) -> None:
    assert Sampling(**named).is_greedy  # type: ignore[arg-type]
    assert not Sampling(temperature=0.01, top_k=2, top_p=0.01, min_p=0.9).is_greedy
    assert not Sampling(top_k=0).is_greedy
