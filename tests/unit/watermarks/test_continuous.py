"""Continuous similarity, against a naive implementation of the paper's definition."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from tests.errors import raises_naming
from tests.unit.watermarks.test_bilinear import topical

from hammingmark.artifacts.profile import EncoderProfile, Provenance, save_profile
from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.stats.compare import compare
from hammingmark.watermarks.continuous import ContinuousConfig, ContinuousMark

D = 32
ENCODER = EncoderId("hash", "ab" * 32, D)


def mark_of(number: int = 0, **parameters: object) -> ContinuousMark:
    config = ContinuousConfig(encoder=ENCODER, **parameters)  # type: ignore[arg-type]
    return ContinuousMark(WatermarkKey(Secret(bytes([number] * 32)), config))


def test_votes_are_those_of_the_definition() -> None:
    mark, rows = mark_of(gamma=0.3), topical(60, np.random.default_rng(1))
    expected = [
        sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True)) >= 0.63
        for a, b in itertools.pairwise(rows)
    ]
    assert 5 < sum(expected) < 55
    read = mark.read(rows)
    assert [unit.valid for unit in read.evidence.scores] == expected
    assert read.evidence.means["share"] == np.mean(expected)
    z = (sum(expected) - 0.3 * 59) / math.sqrt(59 * 0.3 * 0.7)
    assert read.evidence.z["share"] == pytest.approx(z)
    p_value = compare(read.test("share"), limit=99).p_value
    assert p_value == pytest.approx(0.5 * math.erfc(z / math.sqrt(2)))


def test_no_key_decides_anything() -> None:
    rows = topical(30, np.random.default_rng(2))
    first, second = (mark_of(number, gamma=0.3) for number in (1, 2))
    assert first.capabilities.keyless
    assert first.read(rows).evidence == second.read(rows).evidence


def test_the_most_similar_is_kept_where_none_fits() -> None:
    mark, rows = mark_of(threshold=0.99, gamma=0.3), topical(6, np.random.default_rng(3))
    choice = mark.choose(rows[0], rows[1:])
    assert not choice.accepted
    assert choice.index == int((rows[1:] @ rows[0]).argmax())


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 1.0},
        {"threshold": -1.0},
        {"gamma": 0.0},
        {"acceptance": 1.0},
        {"profile": "x" * 41},
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        mark_of(**{"gamma": 0.2, **wrong})


@pytest.mark.parametrize(
    ("given", "threshold", "gamma"),
    [
        ({}, 0.63, 0.37),
        ({"acceptance": 0.58}, 0.42, 0.58),
        ({"acceptance": 0.58, "threshold": 0.5}, 0.5, 0.5),
        ({"gamma": 0.2}, 0.63, 0.2),
    ],
)
def test_what_is_not_given_comes_from_the_profile(
    tmp_path: Path, given: dict[str, object], threshold: float, gamma: float
) -> None:
    rows, cosines = topical(2, np.random.default_rng(4)), np.linspace(0, 1, 101, dtype=np.float32)
    of = Provenance(9, 99, "cd" * 32, 0, "s", "v", "k")
    profile = EncoderProfile(ENCODER, rows, rows, rows[0], cosines, cosines, of)
    (tmp_path / "p").write_bytes(save_profile(profile))
    config = ContinuousConfig.from_preset(encoder=ENCODER, profile=str(tmp_path / "p"), **given)
    assert config.threshold == pytest.approx(threshold, abs=2e-3)
    assert config.gamma == pytest.approx(gamma, abs=0.02)
    with raises_naming(InputError, "acceptance", -1):
        ContinuousConfig.from_preset(encoder=ENCODER, profile=str(tmp_path / "p"), acceptance=-1.0)


def test_without_a_profile_the_error_says_what_to_run() -> None:
    with raises_naming(InputError, "continuous", "--encoder hash"):
        ContinuousConfig.from_preset(encoder=ENCODER)
