"""Keys of experiments."""

from __future__ import annotations

import pytest

from hammingmark.errors import InputError, UnknownName
from hammingmark.evaluation.keys import UNMARKED, ExperimentKeys
from hammingmark.keys.config import to_json
from hammingmark.keys.key import WatermarkKey
from hammingmark.testing import FakeEncoder, FakeTokenizer


def made(point: str, number: int = 0, **options: str) -> WatermarkKey:
    keys = ExperimentKeys(FakeEncoder(), FakeTokenizer(), **options)
    key = keys.key(point, number)
    assert key is not None
    assert keys.key(point, number) == key
    return key


def test_the_number_determines_the_key() -> None:
    first, second = made("hamming"), made("hamming")
    assert (first.id, first.config) == (second.id, second.config)
    assert len({made("hamming").id, made("hamming", 1).id, made("hamming", name="b").id}) == 3


def test_a_point_is_a_method_with_a_preset_or_parameters() -> None:
    assert made("hamming/paper").config.summary != made("hamming").config.summary
    config = to_json(made("hamming/threshold=5,bits=9").config)["parameters"]
    assert (config["threshold"], config["bits"]) == (5, 9)


def test_tokens_are_marked_with_the_tokenizer() -> None:
    assert made("kgw").config.method == "kgw"


def test_unmarked_texts_have_no_key() -> None:
    assert ExperimentKeys(FakeEncoder()).key(UNMARKED, 0) is None


def test_unknown_points_are_refused() -> None:
    with pytest.raises(UnknownName):
        made("none")
    for point in ("hamming/none", "hamming/none=1"):
        with pytest.raises(InputError):
            made(point)
