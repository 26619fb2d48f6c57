"""Every registered method keeps its contract, on the examples that it supplies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from hammingmark import registry
from hammingmark.generation.config import BUDGET
from hammingmark.generation.generate import GenerationConfig, Writer
from hammingmark.keys.config import EncoderId, MethodConfig, SentenceConfig
from hammingmark.keys.key import ReferenceKeys, Secret, WatermarkKey
from hammingmark.protocols import FloatArray
from hammingmark.records import Choice, Prompt
from hammingmark.stats.compare import compare
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.method_checks import (
    check_p_values_under_wrong_keys_are_not_smaller_than_uniform,
    method_checks,
)
from hammingmark.testing.method_examples import every_test, examples_of, under, unmarked
from hammingmark.text.sentencex import SentencexSplitter

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


@pytest.mark.parametrize(("method", "config"), EXAMPLES)
def test_a_null_distribution_is_called_exact_unless_there_is_no_secret(
    method: type, config: MethodConfig
) -> None:
    """The command prints the description, and `Verdict.exact` says the same as data."""
    rng = np.random.default_rng(1)
    watermark = under(method, config, rng)
    if watermark.capabilities.samples:
        pytest.skip("reads texts with samples of a model")
    for _, test in every_test(watermark, watermark.read(unmarked(config, 12, rng))):
        is_exact = test.null.description.startswith("exact")
        assert is_exact is not watermark.capabilities.keyless


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
    """It hardly ever ties, so that its p-values have a mean of one half; four standard errors."""
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
    """Given the topic, every reference key has the projections of the secret key, and all tie."""
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


SENTENCE_METHODS = [
    pytest.param(method, id=name)
    for name, method in METHODS.items()
    if issubclass(method.Config, SentenceConfig)
]


@pytest.mark.parametrize("method", SENTENCE_METHODS)
@pytest.mark.parametrize("budget", [3, None])
def test_a_cap_on_candidates_caps(method: Any, budget: int | None) -> None:
    """If nothing is accepted, the allowed number of candidates is drawn, and the text continues."""
    encoder = FakeEncoder()
    config = next(iter(method.examples(EncoderId.of(encoder)).values()))
    if "N_max" in {field.name for field in fields(config)}:
        config = replace(config, N_max=7)
    mark = method(WatermarkKey(Secret(bytes(range(32))), config))

    class Refuses(method):  # type: ignore[misc]
        """The same method, which accepts no candidate."""

        def choose(self, previous: FloatArray | None, candidates: FloatArray) -> Choice:
            choice = super().choose(previous, candidates)
            free = previous is None and not self.judges_beginnings
            return choice if free else replace(choice, accepted=False)

    writer = Writer(
        FakeBackend(),
        SentencexSplitter(),
        encoder,
        Refuses(mark.key),
        GenerationConfig(max_sentences=4, max_tokens=10_000, budget=budget, stage_tokens=0),
    )
    generation = writer.write(Prompt("It was late. The harbour slept."), seed=1)
    allowed = budget or mark.capabilities.trials or BUDGET
    drawn = [step.candidates for step in generation.steps if step.accepted is not None]
    assert drawn
    assert set(drawn) == {allowed}
    assert generation.cost.fallbacks == len(drawn)
    assert len(generation.sentences) == 4
