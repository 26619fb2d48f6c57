"""What is told of a verdict to clients who are told the verdict alone."""

from __future__ import annotations

import pytest
from tests.unit.reports.test_text import verdict

from hammingmark.records import Passage
from hammingmark.reports.text import is_near_edge, is_power_unknown
from hammingmark.server.detection.disclosure import Detail, disclosed

PIECES = tuple(f"Sentence {i}." for i in range(23))


@pytest.mark.parametrize(
    ("passage", "quarters"), [((5, 19), (0, 23)), ((0, 23), (0, 23)), ((7, 10), (6, 12))]
)
def test_of_a_rough_passage_nothing_is_certain(
    passage: tuple[int, int], quarters: tuple[int, int]
) -> None:
    exact = verdict(pieces=PIECES, passages=(Passage(*passage, 0.0004),))
    told = disclosed(exact, "verdict", top=0.01)
    [found] = told.passages
    assert (found.begin, found.end, found.rough) == (*quarters, True)
    assert all(is_near_edge(told, found, i) for i in range(found.begin, found.end))


@pytest.mark.parametrize("detail", ["p_value", "scores"])
def test_only_strangers_are_told_passages_roughly(detail: Detail) -> None:
    exact = verdict(pieces=PIECES, passages=(Passage(5, 19, 0.0004),))
    assert disclosed(exact, detail, top=0.01).passages == exact.passages


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"watermarked": False, "p_value": 0.2, "passages": ()},
        {"watermarked": None, "passages": (), "likelihood_ratio": 5.0},
        {"watermarked": None, "p_value": 0.2, "passages": (), "attainable": 0.001},
    ],
)
def test_strangers_are_told_that_a_method_has_no_secret(changes: dict[str, object]) -> None:
    told = disclosed(verdict(exact=False, **changes), "verdict", top=0.01)
    assert not told.exact
    assert "no secret" in told.reason
    assert "no secret" not in disclosed(verdict(**changes), "verdict", top=0.01).reason


@pytest.mark.parametrize("attainable", [0.0001, 0.004, 0.005, 0.02, 0.4])
def test_a_text_is_called_short_only_if_that_is_why_nothing_is_said(attainable: float) -> None:
    """Whatever the ladder is, what is attainable stays on its side of the level."""
    exact = verdict(watermarked=None, p_value=0.66, passages=(), attainable=attainable, level=0.005)
    told = disclosed(exact, "verdict", top=0.05)
    assert is_power_unknown(told) is is_power_unknown(exact) is (attainable <= 0.005)
    assert ("short" in told.reason) is (attainable > 0.005)
    short = disclosed(verdict(watermarked=None, power_as_written=0.3), "verdict", top=0.01)
    assert "short" in short.reason
