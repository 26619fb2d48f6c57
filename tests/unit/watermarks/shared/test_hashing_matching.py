"""Sign bits, matches and the acceptance rule, against a naive implementation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammingmark.watermarks._shared.hashing import hash_bits, match_counts, project


def gaussians(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@given(n=st.integers(2, 6), k=st.integers(1, 5), m=st.integers(1, 20), seed=st.integers(0, 1000))
def test_matches_are_counted_bit_by_bit(n: int, k: int, m: int, seed: int) -> None:
    projections = gaussians(n, k, m, seed=seed)
    bits = projections >= 0
    expected = (bits[1:] == bits[:-1]).sum(axis=-1)
    codes = hash_bits(projections)
    actual = match_counts(codes[1:], codes[:-1], bits=m)
    np.testing.assert_array_equal(actual, expected)


@given(n=st.integers(1, 300), d=st.integers(1, 40), k=st.integers(1, 40), m=st.integers(1, 9))
def test_projecting_in_pieces_changes_nothing(n: int, d: int, k: int, m: int) -> None:
    embeddings = gaussians(n, d)
    planes = gaussians(d, k * m, seed=1)
    actual = project(embeddings, planes, bits=m)
    assert actual.shape == (n, k, m)
    np.testing.assert_allclose(actual.reshape(n, k * m), embeddings @ planes, atol=1e-4)


def test_a_wide_product_is_taken_in_pieces() -> None:
    embeddings, planes = gaussians(10, 10), gaussians(10, 8000, seed=1)
    actual = project(embeddings, planes, bits=8)
    np.testing.assert_allclose(actual.reshape(10, -1), embeddings @ planes, atol=1e-4)


def test_zero_is_a_one() -> None:
    assert hash_bits(np.zeros((1, 1, 8), np.float32)).item() == 255


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255))
def test_hamming_distance_is_a_metric(a: int, b: int, c: int) -> None:
    def distance(x: int, y: int) -> int:
        codes = np.array([x, y], np.uint8)[:, None, None]
        return 8 - int(match_counts(codes[1:], codes[:-1], bits=8)[0, 0])

    assert distance(a, a) == 0
    assert distance(a, b) == distance(b, a)
    assert distance(a, c) <= distance(a, b) + distance(b, c)


def test_37_of_256_codes_are_accepted() -> None:
    """The paper's m = 8, T = 6."""
    codes = np.arange(256, dtype=np.uint8)[:, None]
    matches = match_counts(codes, codes[:1], bits=8)
    assert int((matches >= 6).sum()) == 37


@pytest.mark.parametrize("threshold", range(10))
def test_acceptance_is_at_least(threshold: int) -> None:
    matches = np.arange(9, dtype=np.uint8)
    assert int((matches >= threshold).sum()) == max(0, 9 - threshold)
