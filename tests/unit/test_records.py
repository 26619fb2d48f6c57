"""Records that refuse what makes no sense."""

from __future__ import annotations

import math

import pytest

from hammingmark.errors import InputError
from hammingmark.records import Sampling


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.1}, "top_p is 1.1"),
        ({"top_p": math.nan}, "top_p is nan"),
        ({"min_p": -0.1}, "min_p is -0.1"),
        ({"min_p": 1.5}, "min_p is 1.5"),
    ],
)
def test_sampling_refuses_what_is_out_of_range(wrong: dict[str, float], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
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
