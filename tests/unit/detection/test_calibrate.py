"""Thresholds are fitted on what detection compares with them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from hammingmark.assembly.detection import calibrate_key, detector
from hammingmark.assembly.keys import new_key
from hammingmark.keys.key import Secret
from hammingmark.testing.fakes import WORDS, FakeTokenizer


def repetitive(rng: Random) -> str:
    """A text that says the same again and again, or not so often."""
    phrase = " ".join(rng.sample(WORDS, 12))
    return " ".join(
        phrase if rng.random() < 0.5 else " ".join(rng.sample(WORDS, 12)) for _ in range(6)
    )


@pytest.mark.parametrize("method", ["kgw", "morphmark", "synthid"])
def test_texts_that_repeat_themselves_keep_the_rate(method: str) -> None:
    """What does not count is left out when a threshold is fitted, as when a text is judged."""
    tokenizer, rng, level = FakeTokenizer(), Random(7), 0.05
    key = replace(new_key(method=method, tokenizer=tokenizer), secret=Secret(bytes(range(32))))
    for statistic in detector(key, tokenizer=tokenizer).search.first.statistics:
        fitted = calibrate_key(
            [repetitive(rng) for _ in range(400)],
            key=key, tokenizer=tokenizer, statistic=statistic, level=level, provenance={},
        )  # fmt: skip
        judge = detector(key, tokenizer=tokenizer, statistic=statistic, calibration=fitted)
        verdicts = list(judge.judge_many([repetitive(rng) for _ in range(400)]))
        repeated = np.mean([each.evidence.repeated for each in verdicts])
        assert repeated == 0 if statistic == "green_all" else repeated > 5
        share = np.mean([bool(each.watermarked) for each in verdicts])
        # Both the threshold and the share are of 400 texts: four standard errors of their sum.
        assert share < level + 4 * np.sqrt(2 * level * (1 - level) / 400), (statistic, share)
