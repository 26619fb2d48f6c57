"""SemStamp, against a naive implementation of its published definition."""

from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np
import pytest
from tests.unit.watermarks.test_bilinear import topical

from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.watermarks.semstamp import PUBLISHED_MASKS, SemStamp, SemStampConfig

D = 32


def mark_of(number: int = 0, **parameters: object) -> SemStamp:
    config = SemStampConfig(encoder=EncoderId("hash", "ab" * 32, D), **parameters)  # type: ignore[arg-type]
    return SemStamp(WatermarkKey(Secret(hashlib.sha256(b"stamp %d" % number).digest()), config))


def test_votes_are_those_of_the_definition() -> None:
    """A sentence is valid if the set of the preceding signature contains its own."""
    mark, rows = mark_of(), topical(30, np.random.default_rng(1))
    secret = mark.key.secret
    normals = secret.normals("planes", 3 * D).reshape(3, D).astype(np.float64)
    order = secret.uniforms("masks", 64).reshape(8, 8).argsort(axis=1)
    valid = [set(row[:2].tolist()) for row in order]
    numbers = [int("".join("1" if dot > 0 else "0" for dot in normals @ row), 2) for row in rows]
    expected = [b in valid[a] for a, b in itertools.pairwise(numbers)]
    evidence = mark.read(rows).evidence
    assert [unit.valid for unit in evidence.scores] == expected
    h, n = sum(expected), 29
    assert evidence.z["share"] == pytest.approx((h - n / 4) / math.sqrt(n * 3 / 16))
    assert evidence.means["share"] == pytest.approx(h / n)


def test_a_sentence_near_an_edge_is_refused_and_counts() -> None:
    mark, rng = mark_of(margin=0.1), np.random.default_rng(2)
    normals = mark.key.secret.normals("planes", 3 * D).reshape(3, D).astype(np.float64)
    lengths = np.linalg.norm(normals, axis=1)
    seen = set()
    for _ in range(400):
        before, after = topical(2, rng, topic=0.0)
        choice = mark.choose(before, after[None])
        [unit] = mark.read(np.stack([before, after])).evidence.scores
        near = bool((np.abs(normals @ after) / lengths < 0.1).any())
        assert choice.accepted is (unit.valid and not near)
        seen.add((unit.valid, near))
    assert len(seen) == 4


def test_published_constants_are_those_of_the_authors_code() -> None:
    """NearPy's normals for seed 1234, and torch's permutations on a CPU."""
    mark, other = (mark_of(number, constants="published") for number in (1, 2))
    assert mark.capabilities.keyless
    rows = topical(60, np.random.default_rng(3))
    normals = np.random.RandomState(1234).randn(3, D)
    numbers = (((rows @ normals.T) > 0) @ np.array([4, 2, 1])).tolist()
    expected = [b in PUBLISHED_MASKS[a] for a, b in itertools.pairwise(numbers)]
    assert [unit.valid for unit in mark.read(rows).evidence.scores] == expected
    assert mark.read(rows).evidence == other.read(rows).evidence


@pytest.mark.parametrize(
    "wrong", [{"d": 0}, {"d": 7}, {"gamma": 0.05}, {"gamma": 1.0}, {"margin": -0.1}, {"N_max": 0},
              {"constants": "published", "gamma": 0.5}]
)  # fmt: skip
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        mark_of(**wrong)


def test_the_relaxed_preset_is_the_papers() -> None:
    config = SemStampConfig.from_preset("relaxed", encoder=EncoderId("hash", "ab" * 32, D))
    assert (config.gamma, config.valid) == (0.5, 4)


def test_torch_draws_the_published_masks() -> None:
    torch = pytest.importorskip("torch")
    for region, valid in enumerate(PUBLISHED_MASKS):
        generator = torch.Generator().manual_seed(15485863 * region)
        assert torch.randperm(8, generator=generator)[:2].tolist() == list(valid)
