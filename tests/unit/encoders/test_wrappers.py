"""Encoders that wrap another return its embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.unit.server.harness import PATIENCE, HangingEncoder

from hammingmark.encoders.wrappers import CachedEncoder, SlicedEncoder, TimedEncoder
from hammingmark.errors import EncoderError
from hammingmark.protocols import Encoder, FloatArray
from hammingmark.testing import FakeEncoder, encoder_checks


def test_it_is_the_encoder_that_it_holds() -> None:
    inner = FakeEncoder()
    timed = TimedEncoder(inner, PATIENCE)
    assert isinstance(timed, Encoder)
    sentences = ["It rained.", "The river rose."]
    np.testing.assert_array_equal(timed.encode(sentences), inner.encode(sentences))
    assert (timed.name, timed.dimension) == (inner.name, inner.dimension)
    assert timed.fingerprint == inner.fingerprint


@pytest.mark.parametrize("error", [EncoderError("no"), ValueError("odd"), TimeoutError("its own")])
def test_what_it_fails_with_is_told(error: Exception) -> None:
    class Failing(FakeEncoder):
        def encode(self, sentences: Sequence[str]) -> FloatArray:
            raise error

    with pytest.raises(type(error)) as caught:
        TimedEncoder(Failing(), PATIENCE).encode(["It rained."])
    assert caught.value is error


def test_one_that_hangs_fails_and_calls_do_not_pile_up() -> None:
    inner = HangingEncoder()
    timed = TimedEncoder(inner, 0.01)
    for _ in range(30):
        with pytest.raises(EncoderError) as caught:
            timed.encode(["It rained."])
        assert caught.value.kind == "timeout"
    assert len(inner.calls) < 10
    inner.go_on.set()
    late = [call for call in timed._late if not call.result(PATIENCE).size]
    assert late == []
    assert TimedEncoder(inner, PATIENCE).encode(["It rained."]).shape == (1, inner.dimension)


def test_a_sliced_encoder_embeds_as_the_other_does() -> None:
    plain, ticks = FakeEncoder(), list[int]()
    sliced = SlicedEncoder(plain, after=ticks.append)
    sentences = ["x" * (n % 50) for n in range(1100)]
    assert (sliced.encode(sentences) == plain.encode(sentences)).all()
    assert sum(ticks) == 1100
    assert len(ticks) > 2
    assert sliced.encode([]).shape == plain.encode([]).shape


@pytest.mark.parametrize("check", encoder_checks(), ids=lambda check: str(check.__name__))
def test_a_cached_encoder_is_an_encoder(check: Callable[[Encoder], None]) -> None:
    check(CachedEncoder(FakeEncoder()))


def test_a_cached_encoder_embeds_each_sentence_once() -> None:
    inner = FakeEncoder()
    cached = CachedEncoder(inner)
    first = cached.encode(["One.", "Two.", "One."])
    second = cached.encode(["Three.", "Two."])
    assert inner.encoded == ["One.", "Two.", "Three."]
    np.testing.assert_array_equal(first[[0, 1]], first[[2, 1]])
    np.testing.assert_array_equal(second[1], first[1])
    assert cached.fingerprint == inner.fingerprint
