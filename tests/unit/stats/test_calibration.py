"""Thresholds per length."""

import json

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.errors import CalibrationError
from hammingmark.stats.calibration import Calibration


def unfitted(level: float = 0.01) -> Calibration:
    return Calibration("global_bits", level=level, key_id="hm-1", fingerprint="f")


def texts(count: int, length: int, seed: int = 0) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).random((count, length)))


@pytest.mark.parametrize("level", [0.01, 0.05])
def test_the_level_is_kept_on_fresh_text_of_the_same_kind(level: float) -> None:
    rates = []
    for seed in range(40):
        fitted = unfitted(level).fit(texts(300, 9, seed))
        fresh = texts(2000, 8, seed + 1000)
        rates.append(np.mean([text.mean() > fitted.threshold(8) for text in fresh]))
    assert np.mean(rates) <= level + 4 * np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) >= level / 3


def test_longer_texts_have_lower_thresholds_and_none_is_asked_beyond_them() -> None:
    fitted = unfitted().fit(texts(8000, 40))
    assert fitted.thresholds_ == sorted(fitted.thresholds_, reverse=True)
    assert fitted.threshold(1) == fitted.thresholds_[0]
    assert fitted.threshold(0) == float("inf")
    assert fitted.threshold(9) == fitted.threshold(8)
    assert fitted.threshold(10_000) == fitted.thresholds_[-1]


def test_too_few_texts_are_refused() -> None:
    with raises_naming(CalibrationError, 99):
        unfitted().fit(texts(20, 3))
    with raises_naming(CalibrationError, "fit"):
        unfitted().threshold(3)


def test_json_gives_the_same_calibration_back() -> None:
    fitted = unfitted().fit(texts(200, 10))
    assert Calibration.from_json(json.loads(json.dumps(fitted.to_json()))) == fitted


@pytest.mark.parametrize("data", [{}, {"format": "x"}, {"format": "hammingmark-calibration"}])
def test_other_files_are_refused(data: dict[str, str]) -> None:
    with pytest.raises(CalibrationError):
        Calibration.from_json(data)
