"""Weights built from other weights are the same to the last bit on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save
from tests.errors import raises_naming

from hammingmark.errors import ModelUnavailable
from hammingmark.models.amend import amend, product


def factors(rows: int, rank: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    left = rng.integers(-32000, 32001, size=(rows, rank)).astype(np.int16)
    right = rng.integers(-32000, 32001, size=(rank, columns)).astype(np.int16)
    return left, right


def test_the_product_is_what_whole_numbers_give() -> None:
    left, right = factors(7, 64, 5)
    exact = left.astype(object) @ right.astype(object)
    expected = np.array([[float(each) for each in row] for row in exact]) * 2.0**-40
    assert np.array_equal(product(left, right, 2.0**-40), expected.astype(np.float32))


def test_the_order_of_summing_does_not_matter() -> None:
    left, right = factors(40, 64, 30)
    turned = np.random.default_rng(2).permutation(64)
    one = product(left, right, 2.0**-35)
    assert one.tobytes() == product(left[:, turned], right[turned], 2.0**-35).tobytes()


def test_places_are_added_to_or_replaced_and_the_rest_stays() -> None:
    base = np.arange(40, dtype="<f4")
    left, right = factors(2, 3, 4)
    scale = np.array([2.0**-30], np.float32)
    file = save(
        {
            "16.left": left,
            "16.right": right,
            "16.scale": scale,
            "80.values": np.array([9.5, -1.0], np.float32),
        }
    )
    result = np.frombuffer(b"".join(amend(base.tobytes(), file)), "<f4")
    expected = base.copy()
    expected[4:12] += product(left, right, 2.0**-30).ravel()
    expected[20:22] = (9.5, -1.0)
    assert np.array_equal(result, expected)


@pytest.mark.parametrize(
    "tensors",
    [
        {"16.left": np.ones((2, 3), np.int16)},
        {"4000.values": np.ones(3, np.float32)},
        {"-8.values": np.ones(3, np.float32)},
        {
            "0.left": np.ones((2, 3), np.int16),
            "0.right": np.ones((3, 2), np.int16),
            "0.scale": np.array([0.3], np.float32),
        },
        {"nowhere.values": np.ones(3, np.float32)},
    ],
)
def test_what_does_not_fit_is_refused(tensors: dict[str, np.ndarray]) -> None:
    with raises_naming(ModelUnavailable, kind="damaged"):
        list(amend(bytes(400), save(tensors)))


def test_damaged_amendments_are_refused() -> None:
    with raises_naming(ModelUnavailable, kind="damaged"):
        list(amend(bytes(400), b"no safetensors"))
