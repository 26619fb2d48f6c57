"""g-values: those of the published codes, and the same on every device."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from hammingmark.watermarks.synthid.g_values import (
    GValueHash,
    Hashing,
    sampling_table,
    share_of_ones,
)

KEYS = np.random.default_rng(0).integers(0, 1 << 63, size=30, dtype=np.uint64).astype(np.int64)
HASHINGS: tuple[Hashing, ...] = ("mixed", "iterated", "table")


def runs(*shape: int) -> NDArray[np.int64]:
    return np.random.default_rng(1).integers(0, 50_000, size=shape)


def iterated_by_whole_numbers(tokens: list[int], keys: list[int], depth: int) -> int:
    """One g-value, by Python's integers."""

    def signed(value: int) -> int:
        return (value + 2**63) % 2**64 - 2**63

    def step(value: int, data: int) -> int:
        return signed((value + data) * 6364136223846793005 + 1)

    packed = b"".join(key.to_bytes(8, "little", signed=True) for key in keys)
    hashed = int(hashlib.sha256(packed).hexdigest(), 16) % (2**63 - 1)
    for data in [*tokens, keys[depth]]:
        hashed = step(hashed, data)
    for _ in range(12):
        hashed = step(hashed, 1) >> 5
    return (hashed >> 30) % 2


def test_iterated_g_values_are_those_of_whole_numbers() -> None:
    token_runs = runs(20, 5)
    hashing = GValueHash.of(KEYS, "iterated")
    actual = hashing.g_values(hashing.hashes(token_runs))
    expected = [
        [iterated_by_whole_numbers(row, KEYS.tolist(), depth) for depth in range(30)]
        for row in token_runs.tolist()
    ]
    np.testing.assert_array_equal(actual, expected)


def mixed_by_whole_numbers(tokens: list[int], keys: list[int], depth: int) -> int:
    """One g-value, by Python's unsigned integers."""

    def mix(value: int) -> int:
        value = (value + 0x1E3779B97F4A7C15) % 2**64
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
        return value ^ (value >> 31)

    packed = b"".join(key.to_bytes(8, "little", signed=True) for key in keys)
    hashed = int(hashlib.sha256(packed).hexdigest(), 16) % (2**63 - 1)
    for data in [*tokens, keys[depth]]:
        hashed = mix(hashed + data)
    return hashed >> 63


def test_mixed_g_values_are_those_of_whole_numbers() -> None:
    token_runs = runs(20, 5)
    hashing = GValueHash.of(KEYS, "mixed")
    expected = [
        [mixed_by_whole_numbers(row, KEYS.tolist(), depth) for depth in range(30)]
        for row in token_runs.tolist()
    ]
    np.testing.assert_array_equal(hashing.g_values(hashing.hashes(token_runs)), expected)


def test_table_g_values_are_those_of_transformers() -> None:
    torch = pytest.importorskip("torch")
    process = pytest.importorskip("transformers.generation.logits_process")
    theirs = process.SynthIDTextWatermarkLogitsProcessor(
        ngram_len=5,
        keys=KEYS.tolist(),
        sampling_table_size=1 << 16,
        sampling_table_seed=0,
        context_history_size=64,
        device=torch.device("cpu"),
    )
    tokens = runs(3, 80)
    expected = theirs.compute_g_values(torch.from_numpy(tokens)).numpy()
    hashing = GValueHash.of(KEYS, "table")
    token_runs = np.lib.stride_tricks.sliding_window_view(tokens, 5, axis=1)
    np.testing.assert_array_equal(hashing.g_values(hashing.hashes(token_runs)), expected)


def test_the_table_is_what_torch_draws() -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(0, 2, (1 << 16,), generator=generator).numpy()
    np.testing.assert_array_equal(sampling_table(), drawn)
    assert share_of_ones("table") == drawn.mean() != 0.5


@pytest.mark.parametrize("hashing", HASHINGS)
def test_numpy_and_torch_agree_bit_for_bit(hashing: Hashing) -> None:
    torch = pytest.importorskip("torch")
    token_runs = runs(4, 16, 5)
    ours = GValueHash.of(KEYS, hashing)
    tensors = ours.moved(torch.tensor)
    hashes = tensors.hashes(torch.from_numpy(token_runs))
    np.testing.assert_array_equal(ours.hashes(token_runs), hashes.numpy())
    actual = tensors.g_values(hashes)
    assert actual.shape == (4, 16, 30)
    np.testing.assert_array_equal(ours.g_values(ours.hashes(token_runs)), actual.numpy())


@pytest.mark.parametrize("hashing", HASHINGS)
def test_many_keys_at_once_are_each_of_them_alone(hashing: Hashing) -> None:
    keys = np.random.default_rng(2).integers(0, 2**63 - 1, size=(7, 12))
    token_runs = runs(9, 4)
    together = GValueHash.of_many(keys, hashing)
    actual = together.g_values(together.hashes(token_runs))
    for row, each in zip(keys, actual, strict=True):
        alone = GValueHash.of(row, hashing)
        np.testing.assert_array_equal(alone.g_values(alone.hashes(token_runs)), each)


@pytest.mark.parametrize("hashing", HASHINGS)
def test_g_values_are_fair_over_keys_and_runs(hashing: Hashing) -> None:
    """Each depth has its share of ones, and neighbouring depths agree half of the time."""
    keys = np.random.default_rng(3).integers(0, 2**63 - 1, size=(400, 8))
    together = GValueHash.of_many(keys, hashing)
    bits = together.g_values(together.hashes(runs(100, 5))).reshape(-1, 8)
    slack = 4 * 0.5 / np.sqrt(len(bits))  # one of 15 exceeds it once in a thousand seeds
    np.testing.assert_allclose(bits.mean(axis=0), share_of_ones(hashing), atol=slack)
    np.testing.assert_allclose((bits[:, 1:] == bits[:, :-1]).mean(axis=0), 0.5, atol=slack)


def test_what_a_hash_keeps_tells_equal_g_values() -> None:
    """Under a table, runs whose hashes share 16 bits have the same g-values under every key."""
    ours = GValueHash.of(KEYS, "table")
    hashes = np.array([5, 5 + (1 << 16), 6])
    distinguished = ours.tells_apart(hashes)
    assert distinguished[0] == distinguished[1] != distinguished[2]
    bits = ours.g_values(hashes)
    np.testing.assert_array_equal(bits[0], bits[1])
    assert not np.array_equal(bits[0], bits[2])
    for hashing in ("mixed", "iterated"):
        assert len(set(GValueHash.of(KEYS, hashing).tells_apart(hashes).tolist())) == 3


def test_nothing_shows_the_keys() -> None:
    assert str(int(KEYS[0])) not in repr(GValueHash.of(KEYS, "iterated"))
