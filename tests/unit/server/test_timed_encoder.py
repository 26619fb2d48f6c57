"""An encoder that hangs is told of, and nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.unit.server.harness import PATIENCE, Served, error_of, mark_of

from hammingmark.errors import EncoderError
from hammingmark.protocols import Encoder, FloatArray
from hammingmark.server.timed_encoder import TimedEncoder
from hammingmark.testing import FakeEncoder

Serve = Callable[..., Served]


@dataclass(frozen=True)
class HangingEncoder(FakeEncoder):
    """Answers once it is let go."""

    go_on: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    calls: list[int] = field(default_factory=list, compare=False, repr=False)

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        self.calls.append(len(sentences))
        self.go_on.wait(PATIENCE)
        return super().encode(sentences)


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


@pytest.mark.parametrize("policy", ["refuse", "deliver"])
def test_answers_follow_the_policy_if_it_hangs(serve: Serve, policy: str) -> None:
    encoder = HangingEncoder()
    limits: dict[str, Any] = {"encoder_timeout": 0.05}
    served = serve(encoder=encoder, policy={"on_failure": policy}, limits=limits)
    answer = served.chat()
    encoder.go_on.set()
    if policy == "refuse":
        assert answer.status_code == 503
        assert error_of(answer)["code"] == "watermark_failed"
    else:
        assert mark_of(answer)["status"] == "unmarked"
        assert mark_of(answer)["reason"].startswith("Marking failed: The encoder failed")
