"""Figures of how a mark changes answers, on answers whose figures are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hammingmark.evaluation.datasets.questions import Question
from hammingmark.evaluation.fidelity import fidelity_figures
from hammingmark.evaluation.rows import Row

QUESTIONS = [
    Question(f"q{place}", "yes/no", "Is it so?", "Yes", ("Yes", "No")) for place in range(8)
]


def answers(shares: list[float], *, seed: int | None = None) -> list[Row]:
    """Rows in which question i is answered by No under a share of the 20 keys (or draws)."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for question, share in zip(QUESTIONS, shares, strict=True):
        wrong = set(rng.permutation(20)[: round(20 * share)].tolist())
        rows += [
            {"id": question.id, "key": key, "text": "No." if key in wrong else "Yes."}
            for key in range(20)
        ]
    return rows


def figures(unmarked: list[Row], marked: list[Row]) -> dict[str, Any]:
    return fidelity_figures(QUESTIONS, unmarked, marked, rng=np.random.default_rng(0))


def test_the_same_answers_show_no_change() -> None:
    rows = answers([0.25] * 8, seed=1)
    result = figures(rows, rows)
    for name in ("accuracy", "unusual"):
        assert result[name]["change"] == 0.0
        assert result[name]["interval"] == [0.0, 0.0]
    assert result["accuracy"]["unmarked"] == 75.0
    assert result["unusual"]["marked"] == 25.0


def test_a_fall_of_accuracy_is_told_with_an_interval_around_it() -> None:
    result = figures(answers([0.1] * 8, seed=1), answers([0.4] * 8, seed=2))["accuracy"]
    low, high = result["interval"]
    assert result["change"] == pytest.approx(-30.0)
    assert low < -30.0 < high < 0.0


def test_answers_that_are_wrong_in_another_way_are_unusual_but_not_less_accurate() -> None:
    # Of half of the questions the model is usually wrong.
    before = answers([0.0, 1.0] * 4)
    after = answers([0.5, 0.5] * 4, seed=3)
    result = figures(before, after)
    assert result["accuracy"]["change"] == pytest.approx(0.0)
    assert result["unusual"]["change"] == pytest.approx(50.0)


def test_a_key_that_always_answers_wrong_shows_in_the_spread() -> None:
    rows = answers([0.2] * 8, seed=4)
    one_bad_key = [{**row, "text": "No."} if row["key"] == 7 else row for row in rows]
    even, uneven = figures(rows, rows)["by key"], figures(rows, one_bad_key)["by key"]
    assert uneven["lowest"] == 0.0
    assert uneven["spread"] > 1.3 * even["spread"]


def test_pairs_of_the_same_seed_have_a_narrower_interval() -> None:
    before = answers([0.5] * 8, seed=5)
    after = [
        {**row, "text": "No."} if row["id"] == "q0" and row["key"] < 4 else row for row in before
    ]
    paired = figures(before, after)["accuracy"]["interval"]
    # One draw more has no partner, so draws and keys are no pairs.
    spare = [{"id": question.id, "key": 20, "text": "Yes."} for question in QUESTIONS]
    unpaired = figures(before + spare, after)["accuracy"]["interval"]
    assert paired[1] - paired[0] < unpaired[1] - unpaired[0]
