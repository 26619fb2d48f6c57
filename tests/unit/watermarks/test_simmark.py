"""SimMark, against a naive implementation of its published definition."""

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
from hammingmark.keys.matrix_text import array_from_text, array_to_text
from hammingmark.stats.compare import compare
from hammingmark.watermarks.simmark import SimMark, SimMarkConfig

D = 32
ENCODER = EncoderId("hash", "ab" * 32, D)
COMPONENTS = np.linalg.qr(np.random.default_rng(5).standard_normal((D, D)))[0][:5]
EXAMPLES: list[dict[str, object]] = [
    {"a": 0.5, "b": 0.7, "gamma": 0.2},
    {"distance": "euclidean", "a": 0.7, "b": 1.0, "gamma": 0.3},
    {
        "distance": "euclidean",
        "a": 0.2,
        "b": 0.4,
        "gamma": 0.3,
        "components": array_to_text(COMPONENTS),
    },
]


def mark_of(number: int = 0, **parameters: object) -> SimMark:
    config = SimMarkConfig(encoder=ENCODER, **parameters)  # type: ignore[arg-type]
    return SimMark(WatermarkKey(Secret(bytes([number] * 32)), config))


def likeness(a: np.ndarray, b: np.ndarray, config: SimMarkConfig) -> float:
    """The soft and hard counts of neighbours, in plain loops."""
    if config.distance == "cosine":
        return sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))
    apart = [x - y for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    if config.components:
        rows = array_from_text(config.components).tolist()
        apart = [sum(c * x for c, x in zip(row, apart, strict=True)) for row in rows]
    return math.sqrt(sum(x * x for x in apart))


@pytest.mark.parametrize("parameters", EXAMPLES)
def test_counts_are_those_of_the_definition(parameters: dict[str, object]) -> None:
    mark, rows = mark_of(**parameters), topical(60, np.random.default_rng(1))
    config = mark.config
    soft, hard = [], []
    for before, after in itertools.pairwise(rows):
        x = likeness(before, after, config)
        inside = config.a <= x <= config.b
        hard.append(inside)
        soft.append(1.0 if inside else math.exp(-250 * max(config.a - x, x - config.b)))
    assert 5 < sum(hard) < 55
    evidence = mark.read(rows).evidence
    assert [unit.valid for unit in evidence.scores] == hard
    np.testing.assert_allclose([unit.score for unit in evidence.scores], soft, atol=1e-3)
    assert evidence.means["soft"] == pytest.approx(np.mean(soft), abs=1e-4)
    assert evidence.means["hard"] == np.mean(hard)
    n, g = 59, config.gamma
    z = (sum(soft) - g * n) / math.sqrt(n * g * (1 - g))
    assert evidence.z["soft"] == pytest.approx(z, abs=1e-3)
    found = compare(mark.read(rows).test("soft"), limit=999)
    assert found.p_value == pytest.approx(0.5 * math.erfc(z / math.sqrt(2)), rel=1e-2)


def test_no_key_decides_anything() -> None:
    rows = topical(30, np.random.default_rng(2))
    first, second = (mark_of(number, **EXAMPLES[0]) for number in (1, 2))
    assert first.capabilities.keyless
    assert first.read(rows).evidence == second.read(rows).evidence


@pytest.mark.parametrize("beyond", [1e-9, 1e-12, 1e-15])
def test_just_outside_is_not_inside(beyond: float) -> None:
    """exp(-K distance) rounds to 1 there."""
    rows = np.eye(D, dtype=np.float32)[:1]
    for a, b in ((-0.5, 1.0 - beyond), (-1.0, 0.0 - beyond)):
        mark = mark_of(a=a, b=b, gamma=0.5)
        other = rows if b > 0.5 else np.eye(D, dtype=np.float32)[1:2]
        choice = mark.choose(rows[0], other)
        [unit] = mark.read(np.vstack([rows, other])).evidence.scores
        assert not choice.accepted
        assert not unit.valid
        assert unit.score < 1.0


def test_the_nearest_is_kept_where_none_fits() -> None:
    mark, rng = mark_of(a=0.95, b=0.96, gamma=0.1, K=5.0), np.random.default_rng(3)
    rows = topical(6, rng)
    choice = mark.choose(rows[0], rows[1:])
    apart = [0.95 - likeness(rows[0], row, mark.config) for row in rows[1:]]
    assert not choice.accepted
    assert choice.index == int(np.argmin(apart))


@pytest.mark.parametrize(
    "wrong", [{"a": 0.8}, {"b": 1.1}, {"a": -1.1}, {"gamma": 0.0}, {"gamma": 1.0}, {"K": 0.0},
              {"N_max": 0}, {"profile": "x" * 41}, {"acceptance": 1.0},
              {"components": array_to_text(COMPONENTS)},
              {"distance": "euclidean", "components": array_to_text(COMPONENTS[:, :9])},
              {"distance": "euclidean", "a": -0.1}]
)  # fmt: skip
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        mark_of(**{"gamma": 0.2, **wrong})


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """Cosines 0, 0.01 ... 1 and distances 0, 0.02 ... 2."""
    rows = COMPONENTS.astype(np.float32)
    cosines = np.linspace(0, 1, 101, dtype=np.float32)
    profile = EncoderProfile(
        ENCODER, rows, rows, rows[0], cosines, 2 * cosines,
        Provenance(9, 99, "cd" * 32, 0, "s", "v", "k"),
    )  # fmt: skip
    file = tmp_path / "p.safetensors"
    file.write_bytes(save_profile(profile))
    return str(file)


@pytest.mark.parametrize(
    ("preset", "parameters", "interval", "gamma"),
    [
        ("default", {}, (0.68, 0.76), 0.08),
        ("relaxed", {}, (0.40, 0.90), 0.50),
        ("default", {"acceptance": 0.34}, (0.33, 0.67), 0.34),
        ("relaxed", {"acceptance": 0.34, "b": 0.8}, (0.33, 0.8), 0.47),
        ("default", {"gamma": 0.3}, (0.68, 0.76), 0.3),
        ("default", {"distance": "euclidean"}, (0.28, 0.36), 0.04),
        ("default", {"distance": "euclidean", "acceptance": 0.5}, (0.5, 1.5), 0.5),
        ("default", {"distance": "euclidean", "components": "", "a": 0.2, "b": 1}, (0.2, 1), 0.48),
    ],
)  # fmt: skip
def test_what_is_not_given_comes_from_the_profile(
    profile: str,
    preset: str,
    parameters: dict[str, object],
    interval: tuple[float, float],
    gamma: float,
) -> None:
    config = SimMarkConfig.from_preset(preset, encoder=ENCODER, profile=profile, **parameters)
    assert (config.a, config.b) == pytest.approx(interval, abs=2e-3)
    assert config.gamma == pytest.approx(gamma, abs=0.021)
    wants = parameters.get("distance") == "euclidean" and "components" not in parameters
    assert bool(config.components) is wants
    assert len(config.summary) < 150


def test_what_a_profile_cannot_tell_is_asked_for(profile: str) -> None:
    for parameters in (
        {"distance": "euclidean", "components": array_to_text(COMPONENTS)},
        {"acceptance": 1.5},
        {"acceptance": -0.5},
    ):
        with pytest.raises(InputError):
            SimMarkConfig.from_preset(encoder=ENCODER, profile=profile, **parameters)
    with raises_naming(InputError, "'relaxed'", "acceptance"):
        SimMarkConfig.from_preset("relaxed", encoder=ENCODER, profile=profile, distance="euclidean")


def test_components_of_ones_own_come_with_all_the_rest(profile: str) -> None:
    own = array_to_text(COMPONENTS[:2])
    config = SimMarkConfig.from_preset(
        "relaxed", encoder=ENCODER, profile=profile, **{**EXAMPLES[2], "components": own}
    )
    assert (config.a, config.b, config.gamma, config.components) == (0.2, 0.4, 0.3, own)
    assert len(config.profile) == 32


def test_all_that_is_given_needs_no_profile() -> None:
    config = SimMarkConfig.from_preset(encoder=ENCODER, gamma=0.3)
    assert (config.a, config.b, config.profile) == (0.68, 0.76, "")
    with raises_naming(InputError, "simmark", "--encoder hash"):
        SimMarkConfig.from_preset(encoder=ENCODER)
