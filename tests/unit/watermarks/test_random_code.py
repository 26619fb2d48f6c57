"""Random Code, against a naive implementation of its definition."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from tests.unit.watermarks.test_bilinear import topical

from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.watermarks.hamming import theory
from hammingmark.watermarks.random_code import RandomCode, RandomCodeConfig

D = 32


def mark_of(number: int = 0, **parameters: int) -> RandomCode:
    config = RandomCodeConfig(encoder=EncoderId("hash", "ab" * 32, D), **parameters)
    return RandomCode(WatermarkKey(Secret(hashlib.sha256(b"code %d" % number).digest()), config))


def test_votes_are_those_of_the_definition() -> None:
    mark, rows = mark_of(), topical(200, np.random.default_rng(1), topic=0.3)
    planes = mark.key.secret.normals("planes", 8 * D).reshape(8, D).astype(np.float64)
    valid = set(np.argsort(mark.key.secret.uniforms("codes", 256))[:37].tolist())
    codes = [int("".join("1" if dot >= 0 else "0" for dot in planes @ row), 2) for row in rows]
    actual = [unit.valid for unit in mark.read(rows).evidence.scores]
    assert actual == [code in valid for code in codes]
    assert any(actual), "a test that never saw a valid code would say nothing"


def test_over_keys_a_sentence_is_valid_as_often_as_codes_are() -> None:
    """37 of 256, the volume of the paper's ball, for any sentence; four standard errors."""
    row, count = topical(1, np.random.default_rng(2)), 1500
    actual = np.mean([mark_of(number).choose(None, row).accepted for number in range(count)])
    share = theory.code_share(8, 6)
    assert share == 37 / 256
    assert abs(actual - share) < 4 * np.sqrt(share * (1 - share) / count)


def test_the_sentence_before_does_not_matter() -> None:
    mark, rows = mark_of(), topical(40, np.random.default_rng(3), topic=0.3)
    alone = [mark.choose(None, row[None]).accepted for row in rows]
    behind = [mark.choose(rows[0], row[None]).accepted for row in rows]
    assert alone == behind == [unit.valid for unit in mark.read(rows).evidence.scores]


@pytest.mark.parametrize("wrong", [{"m": 0}, {"m": 13}, {"codes": 0}, {"codes": 256}])
def test_what_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError):
        mark_of(**wrong)
