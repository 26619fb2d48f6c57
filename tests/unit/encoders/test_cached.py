"""No sentence is embedded twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hammingmark.encoders.cached import CachedEncoder
from hammingmark.protocols import Encoder
from hammingmark.testing import FakeEncoder, encoder_checks


@pytest.mark.parametrize("check", encoder_checks(), ids=lambda check: str(check.__name__))
def test_it_is_an_encoder(check: Callable[[Encoder], None]) -> None:
    check(CachedEncoder(FakeEncoder()))


def test_a_sentence_is_embedded_once() -> None:
    inner = FakeEncoder()
    cached = CachedEncoder(inner)
    first = cached.encode(["One.", "Two.", "One."])
    again = cached.encode(["Three.", "Two."])
    assert inner.asked == ["One.", "Two.", "Three."]
    np.testing.assert_array_equal(first[[0, 1]], first[[2, 1]])
    np.testing.assert_array_equal(again[1], first[1])
    assert cached.fingerprint == inner.fingerprint
