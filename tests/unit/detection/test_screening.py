"""What the verdicts on many texts say together."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.detection.screening import Screen
from hammingmark.errors import InputError
from hammingmark.records import Evidence, Passage, Verdict

VERDICT = Verdict(
    watermarked=False,
    p_value=0.5,
    reason="",
    level=0.01,
    statistic="likelihood",
    evidence=Evidence("sentence", (), None, 1.0),
    pieces=(),
    key_id=None,
)


def verdict(p_value: float | None) -> Verdict:
    watermarked = None if p_value is None else p_value <= 0.01
    return replace(VERDICT, p_value=p_value, watermarked=watermarked)


def test_the_expected_number_counts_texts_with_a_p_value_and_corrections_too() -> None:
    screen = Screen()
    for name, p_value in (("a", None), ("b", 0.001), ("c", 0.2), ("d", 0.009), ("e", 0.6)):
        screen.add(name, verdict(p_value))
    result = screen.result(level=0.01)
    assert (result.texts, result.watermarked, result.not_found, result.undecided) == (5, 2, 2, 1)
    assert result.tested == 4
    assert result.expected == pytest.approx(0.04)
    stands = {each.name: (each.rate, each.stands, each.largest) for each in result.corrections}
    assert stands == {
        "holm": (0.01, 1, 0.001),  # 0.01 / 4
        "benjamini-yekutieli": (0.05, 2, 0.009),  # 2 * 0.05 / 4 / 2.08 = 0.012
        "benjamini-hochberg": (0.05, 2, 0.009),
    }
    assert result.smallest == (("b", 0.001), ("d", 0.009))


def test_nothing_to_say_about_no_text() -> None:
    result = Screen().result(level=0.01)
    assert (result.texts, result.tested, result.expected, result.smallest) == (0, 0, 0.0, ())
    assert {each.stands for each in result.corrections} == {0}


def test_a_text_that_only_one_procedure_lets_stand_is_named() -> None:
    screen = Screen()
    for number in range(100):
        screen.add(str(number), verdict(0.0009 if number < 2 else 0.9))
    result = screen.result(level=0.01)
    assert [each.stands for each in result.corrections] == [0, 0, 2]
    assert result.smallest == (("0", 0.0009), ("1", 0.0009))


def test_memory_is_eight_bytes_a_text() -> None:
    screen = Screen()
    for number in range(20_000):
        screen.add(f"a long name of a text, number {number}", verdict(1e-9))
    assert sys.getsizeof(screen._p_values) < 12 * 20_000
    result = screen.result(level=0.01)
    assert result.corrections[0].stands == 20_000
    assert len(result.smallest) == len(screen._best) == 20


def test_unmarked_texts_that_stand_are_as_rare_as_the_procedures_say() -> None:
    """Unmarked texts that all have one p-value: as dependent as texts under one key can be."""
    rng = np.random.default_rng(3)
    rounds = 800
    any_unmarked = np.zeros(3)
    for shared in rng.uniform(size=rounds):
        screen = Screen()
        for _ in range(8):
            screen.add("", verdict(shared))
        stands = [each.stands > 0 for each in screen.result(level=0.01).corrections]
        any_unmarked += stands
    # All that stands is unmarked here, so the share of discoveries that are false is 0 or 1.
    error = 4.0 * np.sqrt(0.05 / rounds)
    holm, yekutieli, hochberg = any_unmarked / rounds
    assert holm < 0.01 + error
    assert yekutieli < 0.05
    assert abs(hochberg - 0.05) < error


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1])
def test_a_rate_lies_between_0_and_1(rate: float) -> None:
    with raises_naming(InputError, rate):
        Screen(rate)


def test_a_text_stands_by_what_is_claimed_of_the_whole_and_of_passages_together() -> None:
    screen = Screen()
    passage = Passage(0, 3, 1e-6)
    screen.add("a", replace(verdict(0.3), joint_p_value=2e-6, passages=(passage,)))
    screen.add("b", replace(verdict(0.001), joint_p_value=0.5, watermarked=False))
    result = screen.result(level=0.01)
    assert (result.watermarked, result.in_part, result.not_found) == (0, 1, 2)
    assert result.smallest == (("a", 2e-6),)
