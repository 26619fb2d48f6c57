"""K-SemStamp, against a naive implementation of its published definition."""

from __future__ import annotations

import hashlib
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
from hammingmark.keys.keyring import load, save
from hammingmark.keys.matrix_text import array_from_text, array_to_text
from hammingmark.stats.compare import compare
from hammingmark.watermarks.k_semstamp import KSemStamp, KSemStampConfig

D = 32
ENCODER = EncoderId("hash", "ab" * 32, D)
CENTRES = topical(8, np.random.default_rng(7), topic=0.0)


def mark_of(number: int = 0, **parameters: object) -> KSemStamp:
    values = {"centres": array_to_text(CENTRES), **parameters}
    config = KSemStampConfig(encoder=ENCODER, **values)  # type: ignore[arg-type]
    return KSemStamp(WatermarkKey(Secret(hashlib.sha256(b"k %d" % number).digest()), config))


def nearest(row: np.ndarray) -> list[tuple[float, int]]:
    """The cosine and number of every centre, the nearest first, in plain loops."""
    found = []
    for number, centre in enumerate(CENTRES.astype(np.float16).astype(np.float64).tolist()):
        dot = sum(a * b for a, b in zip(centre, row.tolist(), strict=True))
        found.append((dot / math.sqrt(sum(a * a for a in centre)), number))
    return sorted(found, reverse=True)


def test_votes_are_those_of_the_definition() -> None:
    mark, rows = mark_of(), topical(40, np.random.default_rng(1))
    order = mark.key.secret.uniforms("masks", 64).reshape(8, 8).argsort(axis=1)
    valid = [set(row[:2].tolist()) for row in order]
    clusters = [nearest(row)[0][1] for row in rows]
    expected = [b in valid[a] for a, b in itertools.pairwise(clusters)]
    evidence = mark.read(rows).evidence
    assert [unit.valid for unit in evidence.scores] == expected
    h, n = sum(expected), 39
    assert evidence.z["share"] == pytest.approx((h - n / 4) / math.sqrt(n * 3 / 16))
    assert evidence.means["share"] == pytest.approx(h / n)


def test_a_sentence_between_two_centres_is_refused_and_counts() -> None:
    mark, rng = mark_of(margin=0.1), np.random.default_rng(2)
    seen = set()
    for _ in range(400):
        before, after = topical(2, rng, topic=0.0)
        choice = mark.choose(before, after[None])
        [unit] = mark.read(np.stack([before, after])).evidence.scores
        (first, _), (second, _), *_ = nearest(after)
        assert choice.accepted is (unit.valid and first - second >= 0.1)
        seen.add((unit.valid, first - second >= 0.1))
    assert len(seen) == 4


def test_reference_keys_share_the_centres() -> None:
    """Two transitions between the same clusters are both valid or both invalid, under every key."""
    mark = mark_of()
    rows = CENTRES[[0, 1, 0, 1, 0]]
    test = mark.read(rows).test("share")
    (block,) = next(test.null.blocks())
    assert block.shape == (4, 1000)
    np.testing.assert_array_equal(block[0], block[2])
    np.testing.assert_array_equal(block[1], block[3])
    assert abs(block[0].mean() - 0.25) < 0.06
    # Both kinds valid once in sixteen: no such text has a smaller p-value, however long.
    assert compare(test, limit=4000).attainable == pytest.approx(1 / 16, abs=0.02)


@pytest.mark.parametrize(
    "wrong", [{"K": 1}, {"K": 65}, {"K": 7}, {"gamma": 0.05}, {"gamma": 1.0}, {"margin": -0.1},
              {"profile": "x" * 41}, {"N_max": 0}, {"centres": ""},
              {"centres": array_to_text(2 * CENTRES)}, {"centres": array_to_text(CENTRES[:, :31])}]
)  # fmt: skip
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        mark_of(**wrong)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    rows, sample = topical(3, np.random.default_rng(3)), np.linspace(0, 1, 5, dtype=np.float32)
    profile = EncoderProfile(
        ENCODER, rows, rows, rows[0], sample, sample, Provenance(9, 99, "cd" * 32, 0, "s", "v", "k")
    )
    file = tmp_path / "p.safetensors"
    file.write_bytes(save_profile(profile))
    return file


def test_a_key_takes_the_centres_of_its_profile(profile: Path, tmp_path: Path) -> None:
    config = KSemStampConfig.from_preset("relaxed", encoder=ENCODER, profile=str(profile))
    assert (config.K, config.gamma, config.valid) == (3, 0.5, 1)
    assert array_from_text(config.centres).shape == (3, D)
    assert len(config.profile) == 32
    profile.unlink()
    key = WatermarkKey(Secret(bytes(32)), config)
    save(key, tmp_path / "key.json")
    assert load(tmp_path / "key.json").config == config, "a key needs no profile"
    assert config.centres not in repr(config) + config.summary
    assert "3 clusters" in config.summary


def test_as_many_clusters_as_the_profile_has(profile: Path) -> None:
    with raises_naming(InputError, 3, "--clusters 8"):
        KSemStampConfig.from_preset(encoder=ENCODER, profile=str(profile), K=8)


def test_without_a_profile_the_error_says_what_to_run() -> None:
    with raises_naming(InputError, "k-semstamp", "--encoder hash"):
        KSemStampConfig.from_preset(encoder=ENCODER)
