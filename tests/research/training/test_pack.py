"""What is shipped can be trained on."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("safetensors")

from research.training.pack import unpack, whole_numbers
from safetensors.numpy import save

from hammingmark.models.amend import amend


def test_what_is_unpacked_adds_what_the_amendments_add() -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((6, 4)).astype(np.float32)
    bias = rng.standard_normal(6).astype(np.float32)
    data = np.ascontiguousarray(weight.T).tobytes() + bias.tobytes()
    a, b = rng.standard_normal((2, 4)), rng.standard_normal((6, 2))
    left, one = whole_numbers(a.T)
    right, other = whole_numbers(b.T)
    moved = bias + 1.0
    amendments = {
        "0.left": left,
        "0.right": right,
        "0.scale": np.array([1.0 / (one * other)], np.float32),
        "96.values": moved,
    }
    found = unpack(amendments, {"x.weight": weight, "x.bias": bias}, data)
    assert set(found) == {"x.a", "x.b", "x.bias"}
    assert np.array_equal(found["x.bias"], moved)
    stored = save({name: np.ascontiguousarray(each) for name, each in amendments.items()})
    finished = np.frombuffer(b"".join(amend(data, stored)), np.float32)
    # The factors have 15 bits, their products are summed in single precision here.
    assert np.allclose(
        weight + found["x.b"] @ found["x.a"], finished[:24].reshape(4, 6).T, atol=1e-5
    )
    # Both factors are of like size, so that one rate suits both.
    assert 0.05 < np.abs(found["x.a"]).max() / np.abs(found["x.b"]).max() < 20.0
