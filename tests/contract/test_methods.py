"""Every registered method keeps its contract, on the examples that it supplies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hammingmark import registry
from hammingmark.core.compare import compare
from hammingmark.keys import ReferenceKeys, Secret, WatermarkKey
from hammingmark.testing.method_checks import (
    check_p_values_under_wrong_keys_are_not_smaller_than_uniform,
    every_test,
    examples_of,
    method_checks,
    under,
    unmarked,
)

METHODS = {name: registry.find("methods", name) for name in registry.names("methods")}
CHECKS = [
    pytest.param(check, id=f"{name}-{what}")
    for name, method in METHODS.items()
    for what, check in method_checks(method)
]
EXAMPLES = [
    pytest.param(method, config, id=f"{name}-{example}")
    for name, method in METHODS.items()
    for example, config in examples_of(method).items()
]

FIRST = [
    pytest.param(method, next(iter(examples_of(method).values())), id=name)
    for name, method in METHODS.items()
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_method_keeps_its_contract(
    check: Callable[[], None], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if "wrong_keys" in request.node.callspec.id:
        # By the hundred, where the level is in question and not the power.
        monkeypatch.setattr(ReferenceKeys, "block", 100)
    check()


@pytest.mark.slow
@pytest.mark.parametrize(("method", "config"), FIRST)
def test_over_many_wrong_keys_the_level_holds(
    method: type, config: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReferenceKeys, "block", 100)
    check_p_values_under_wrong_keys_are_not_smaller_than_uniform(method, config, keys=250)  # type: ignore[arg-type]


@pytest.mark.study
@pytest.mark.parametrize(("method", "config"), EXAMPLES)
def test_the_level_holds_with_as_many_reference_keys_as_users_have(
    method: type, config: object
) -> None:
    check_p_values_under_wrong_keys_are_not_smaller_than_uniform(
        method,
        config,  # type: ignore[arg-type]
        keys=2000,
        references=999,
    )


@pytest.mark.parametrize("config", examples_of(METHODS["hamming"]).values(), ids=str)
def test_the_margin_spends_all_of_its_level(
    config: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hardly ever ties, so that its p-values have a mean of a half; four standard errors."""
    monkeypatch.setattr(ReferenceKeys, "block", 100)
    rng = np.random.default_rng(17)
    found: dict[str, list[float]] = {}
    for _ in range(100):
        watermark = under(METHODS["hamming"], config, rng)  # type: ignore[arg-type]
        watermark.statistics = ("margin",)
        for _ in range(3):
            text = unmarked(config, int(rng.integers(2, 10)), rng)  # type: ignore[arg-type]
            for name, test in every_test(watermark, watermark.read(text)):
                found.setdefault(name, []).append(compare(test, limit=99).p_value)
    for name, p in found.items():
        assert np.mean(p) <= 0.5 + 4 * np.sqrt(1 / 12 / len(p)), name


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("config", examples_of(METHODS["hamming"]).values(), ids=str)
def test_one_sentence_said_again_and_again_is_no_evidence(config: object, n: int) -> None:
    """Given the topic, every reference key sees the text as the secret one does: all tie."""
    rng = np.random.default_rng(12)
    found: dict[str, list[float]] = {}
    for _ in range(12):
        watermark = under(METHODS["hamming"], config, rng)  # type: ignore[arg-type]
        text = np.repeat(unmarked(config, 1, rng), n, axis=0)  # type: ignore[arg-type]
        for name, test in every_test(watermark, watermark.read(text)):
            found.setdefault(name, []).append(compare(test, limit=999).p_value)
    for name, p in found.items():
        assert name.endswith("topic") is False or min(p) == 1.0, name
        assert sum(each <= 0.01 for each in p) <= 2, name


def test_reference_keys_are_found_by_the_holder_of_the_secret_alone() -> None:
    (config, *_) = examples_of(METHODS["hamming"]).values()
    mine, other = (
        METHODS["hamming"](WatermarkKey(Secret(bytes([number] * 32)), config)) for number in (1, 2)
    )
    blocks = [next(iter(each.references.blocks(3))) for each in (mine, other)]
    assert not np.array_equal(*blocks)
