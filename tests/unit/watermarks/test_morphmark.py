"""MorphMark, against a naive implementation of its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.keys.config import TokenizerId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.records import DecodingStep
from hammingmark.watermarks.morphmark import MorphMark, MorphMarkConfig

torch = pytest.importorskip("torch")

V = 300
TOKENIZER = TokenizerId("test", "ab" * 32, V)


def mark(preset: str = "default", **given: object) -> MorphMark:
    config = MorphMarkConfig.from_preset(preset, tokenizer=TOKENIZER, **given)
    return MorphMark(WatermarkKey(Secret(bytes([7] * 32)), config))


def by_hand(own: MorphMark, scores: list[float], context: int) -> tuple[list[float], float]:
    """The new distribution of one text, and the earlier probability of green tokens."""
    config = own.config
    green = [
        bool(own._lists.is_green(own._lists.contexts([np.array([context])]), np.array([v]))[0])
        for v in range(V)
    ]
    top = max(scores)
    weights = [math.exp(each - top) for each in scores]
    p = [each / sum(weights) for each in weights]
    P = sum(each for each, is_green in zip(p, green, strict=True) if is_green)
    growths = {
        "exp": math.exp(config.k * P) - 1,
        "linear": config.k * P,
        "log": math.log(config.k * P + 1),
    }
    r = growths[config.growth] if config.p_0 <= P else 0.0
    moved = r * (1 - P)
    new = [
        max(0.0, each * (1 + moved / P) if is_green else each * (1 - moved / (1 - P)))
        for each, is_green in zip(p, green, strict=True)
    ]
    return [each / sum(new) for each in new], P


@pytest.mark.parametrize("preset", MorphMarkConfig.presets)
def test_rows_are_those_of_the_definition_side_by_side(preset: str) -> None:
    own, rng = mark(preset), np.random.default_rng(1)
    scores = rng.standard_normal((8, V)).astype(np.float32) * 3
    contexts = rng.integers(0, V, size=(8, 1))
    # Rows in which hardly anything, and nearly everything, is green.
    step = DecodingStep(torch.arange(V)[None], torch.from_numpy(contexts), torch.zeros(8, 0))
    green = own.green(step).numpy()
    scores[0, int(np.argmax(~green[0]))] = 15.0
    scores[1, int(np.argmax(green[1]))] = 15.0
    actual = own.process(torch.from_numpy(scores), step).softmax(dim=1).numpy()
    shares = []
    for row in range(8):
        expected, P = by_hand(own, scores[row].tolist(), int(contexts[row, 0]))
        np.testing.assert_allclose(actual[row], expected, atol=2e-6)
        shares.append(P)
    assert shares[0] < own.config.p_0 < 0.98 < shares[1]
    np.testing.assert_allclose(actual[0], torch.from_numpy(scores[0]).softmax(0).numpy(), atol=1e-6)


def test_growth_is_in_the_published_order() -> None:
    """At P = 1/2, how much of the red tokens' probability moves: linear, log, exp."""
    moved = {}
    for preset in MorphMarkConfig.presets:
        own = mark(preset)
        step = DecodingStep(torch.arange(V)[None], torch.tensor([[5]]), torch.zeros(1, 0))
        green = own.green(step)
        scores = torch.where(green, -green.sum().log(), -(~green).sum().log())
        after = own.process(scores.float(), step).softmax(dim=1)
        moved[preset] = 2 * float(after[green].sum()) - 1
    assert moved["default"] == pytest.approx(math.exp(0.65) - 1, abs=1e-4)
    assert moved["linear"] == pytest.approx(0.775, abs=1e-4)
    assert moved["log"] == pytest.approx(math.log(1 + 2.15 / 2), abs=1e-4)


def test_all_green_and_all_red_are_left_alone() -> None:
    own = mark(gamma=0.99)
    tokens, none = torch.arange(V)[None], torch.zeros(1, 0)
    every = [DecodingStep(tokens, torch.tensor([[token]]), none) for token in range(V)]
    step = next(each for each in every if own.green(each).all())
    scores = torch.randn(1, V, generator=torch.Generator().manual_seed(0))
    actual = own.process(scores, step)
    torch.testing.assert_close(actual.softmax(1), scores.softmax(1))
    fast = mark(gamma=0.99, k=100.0)  # a strength beyond what a float holds
    torch.testing.assert_close(fast.process(scores, step).softmax(1), scores.softmax(1))
    own = mark(gamma=0.001)
    step = next(each for each in every if not own.green(each).any())
    torch.testing.assert_close(own.process(scores, step), scores)


def test_a_growth_brings_its_published_k_unless_another_is_given() -> None:
    assert mark(growth="log").config.k == 2.15
    assert mark("linear", k=0.7).config == mark(growth="linear", k=0.7).config


@pytest.mark.parametrize("given", [{"k": 0.0}, {"p_0": 1.0}])
def test_a_configuration_that_cannot_be_is_refused(given: dict[str, object]) -> None:
    with raises_naming(InputError, *given):
        mark(**given)


@pytest.mark.parametrize("statistic", ["green", "green_all"])
def test_power_is_not_stated_where_nobody_knows_what_a_mark_moves(statistic: str) -> None:
    """If all tokens were equally likely, this mark would move nothing, although it moves some."""
    values = np.random.default_rng(1).integers(0, V, 400)
    for given, known in (({"gamma": 0.1}, False), ({"gamma": 0.1, "p_0": 0.05}, True)):
        null = mark(**given).read(values).test(statistic).null.computed
        assert null is not None
        assert (null.power(0.01).as_written is not None) is known
