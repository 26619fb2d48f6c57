"""Quality of texts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hammingmark.errors import InputError
from hammingmark.evaluation.quality import (
    mean_repetition,
    measure_likelihood,
    near_copies,
    perplexity,
    reading_quality,
)
from hammingmark.evaluation.rows import Row
from hammingmark.testing import FakeSplitter


class CoinModel:
    """A model with probability 1/2 for every word."""

    name = "coin"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def negative_log_likelihood(self, text: str, *, prompt: str) -> tuple[float, int]:
        self.asked.append((prompt, text))
        return len(text.split()) * math.log(2.0), len(text.split())


TEXTS: list[Row] = [{"id": n, "prompt": "Go on.", "text": "word " * n} for n in range(1, 6)]


def test_perplexity_is_per_token_of_the_second_model(tmp_path: Path) -> None:
    model = CoinModel()
    rows = measure_likelihood(TEXTS, model, path=tmp_path / "rows.jsonl")
    assert [row["model_tokens"] for row in rows] == [1, 2, 3, 4, 5]
    assert model.asked[0] == ("Go on.", "word ")
    found = perplexity(rows, rng=np.random.default_rng(0), rounds=50)
    assert [found.value, found.low, found.high] == pytest.approx([2.0, 2.0, 2.0])
    assert measure_likelihood(TEXTS, model, path=tmp_path / "rows.jsonl") == rows
    assert len(model.asked) == 5


def test_longer_texts_count_for_more() -> None:
    rows: list[Row] = [{"loss": 0.0, "model_tokens": 3}, {"loss": 4.0, "model_tokens": 1}]
    found = perplexity(rows, rng=np.random.default_rng(0), rounds=50)
    assert found.value == pytest.approx(math.e)
    assert found.low <= found.value <= found.high


def test_without_a_token_there_is_no_perplexity() -> None:
    for rows in ([], [{"loss": 0.0, "model_tokens": 0}]):
        with pytest.raises(InputError):
            perplexity(rows, rng=np.random.default_rng(0))


def test_reading_quality() -> None:
    text = "One two three four. One two three four."
    assert reading_quality([text], FakeSplitter()) == {
        "rep-4": pytest.approx(1 / 5),
        "near_copies": 0.5,
    }


def test_repetition_counts_earlier_runs() -> None:
    assert mean_repetition(["one two three four five"]) == 0.0
    said_twice = "One two three four. one two, three four!"
    assert mean_repetition([said_twice]) == pytest.approx(1 / 5)
    assert mean_repetition(["too short"]) == 0.0
    assert mean_repetition(["a b c d a b c d", "e f g h"]) == pytest.approx(1 / 6)
    assert mean_repetition([]) == 0.0
    with pytest.raises(InputError):
        mean_repetition(["a b"], n=0)


def test_near_copies_are_sentences_that_mostly_repeat() -> None:
    said = "The old mill by the river burned down."
    assert near_copies([[said, "Nobody saw it happen that night.", said]]) == pytest.approx(1 / 3)
    assert near_copies([[said], [said]]) == 0.0  # each text for itself
    half = "The old mill by the lake was never rebuilt again."
    assert near_copies([[said, half]]) == 0.0
    assert near_copies([["Yes.", "No.", "Yes."]]) == pytest.approx(1 / 3)
    assert near_copies([[], ["..."]]) == 0.0
