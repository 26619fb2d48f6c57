"""From rows to figures."""

from __future__ import annotations

import numpy as np
import pytest

from hammingmark.errors import InputError
from hammingmark.evaluation.rows import Row
from hammingmark.evaluation.scores import calibrated_scores, cost_figures, exact_scores


def judged(p_values: list[float], *, key: int = 0, part: str | None = None) -> list[Row]:
    return [{"key": key, "p_value": p, "units": 10, "part": part} for p in p_values]


def test_exact_figures() -> None:
    rows = judged([0.001, 0.5], key=0) + judged([0.001, 0.02], key=1)
    found = exact_scores(rows, levels=[0.01, 0.05], rounds=100)
    assert (found["texts"], found["keys"], found["units"]) == (4, 2, 10.0)
    assert found["found at 0.01"].value == 0.5
    assert found["found at 0.05"].value == 0.75
    assert found["found at 0.05"].low < 0.75 < found["found at 0.05"].high
    with pytest.raises(InputError):
        exact_scores([])


def test_a_threshold_is_of_its_key_and_its_rate_is_measured_on_other_texts() -> None:
    marked = judged([0.001] * 10, key=0) + judged([0.2] * 10, key=1)
    unmarked = [
        *judged([0.1] * 20, key=0, part="calibration"),
        *judged([0.05] + [0.9] * 19, key=0, part="test"),
        *judged([0.3] * 20, key=1, part="calibration"),
        *judged([0.9] * 20, key=1, part="test"),
    ]
    found = calibrated_scores(marked, unmarked, levels=[0.05], rounds=50)
    assert found["calibrated at 0.05"].value == 1.0
    assert found["achieved at 0.05"].value == 1 / 40
    assert found["auroc"].value == pytest.approx(1.0 - 10 / 800)
    assert found["auroc"].low <= found["auroc"].value <= found["auroc"].high


def test_uniform_p_values_keep_their_level() -> None:
    rng = np.random.default_rng(0)
    some = {part: judged(list(rng.random(4000)), part=part) for part in ("calibration", "test")}
    marked = judged(list(rng.random(4000)))
    found = calibrated_scores(marked, [*some["calibration"], *some["test"]], rounds=20)
    for level in (0.01, 0.05):
        for name in ("calibrated", "achieved"):
            assert found[f"{name} at {level:g}"].value == pytest.approx(level, abs=0.02)
    assert found["auroc"].value == pytest.approx(0.5, abs=0.05)


def test_a_key_without_unmarked_texts_is_an_error() -> None:
    for part in ("calibration", "test"):
        with pytest.raises(InputError):
            calibrated_scores(judged([0.1]), judged([0.1], part=part))


def test_costs_are_per_sentence_and_token() -> None:
    cost = {
        "candidates": 6, "emitted_tokens": 20, "drawn_tokens": 50, "fallbacks": 1,
        "candidates_tried": 4, "candidates_accepted": 3, "repeats": 0, "misfits": 0,
        "insisted": 1, "spare_tokens": 10, "seconds": 2.0, "encoder_seconds": 0.5,
    }  # fmt: skip
    found = cost_figures([{"sentences": 2, "cost": cost}, {"sentences": 2, "cost": cost}])
    assert found["candidates"] == 3.0
    assert found["drawn_over_emitted"] == 2.5
    assert found["acceptance"] == 0.75
    assert found["fallback"] == 0.5
    assert found["insisted"] == 0.5
    assert found["ms_per_token"] == 100.0
    assert found["encoder_share"] == 0.25
    assert cost_figures([{"sentences": 2, "cost": cost, "seconds": 1.0}])["ms_per_token"] == 50.0
