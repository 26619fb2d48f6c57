"""Batching, pooling, preparing and fingerprints: the pure parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_naming

from hammingmark.encoders.batching import MAX_CHARACTERS, plan, prepare, run_batches
from hammingmark.encoders.files import file_hash, fingerprint, known_or_hashed
from hammingmark.encoders.vectors import cls_pool, mean_pool, unit_rows
from hammingmark.errors import EncoderError, InputError


@given(
    st.lists(st.integers(0, 300), max_size=60),
    st.integers(1, 500),
    st.integers(1, 20),
)
def test_a_plan_holds_each_sentence_once(lengths: list[int], tokens: int, size: int) -> None:
    batches = plan(lengths, max_tokens=tokens, max_size=size)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= size
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= tokens


def test_order_is_restored_and_progress_told() -> None:
    lengths = [3, 9, 1, 5, 9, 2]
    sizes: list[int] = []
    vectors = run_batches(
        plan(lengths, max_tokens=10, max_size=4),
        lambda batch: np.array([[lengths[i], i] for i in batch], dtype=np.float32),
        dimension=2,
        progress=sizes.append,
    )
    assert vectors.tolist() == [[length, i] for i, length in enumerate(lengths)]
    assert sum(sizes) == len(lengths)
    assert run_batches([], lambda batch: vectors, dimension=2).shape == (0, 2)


def test_mean_and_first() -> None:
    hidden = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    mask = np.array([[1, 1, 0], [0, 0, 0]])
    assert mean_pool(hidden, mask).tolist() == [[1, 2], [0, 0]]
    assert cls_pool(hidden).tolist() == [[0, 1], [6, 7]]


def test_rows_have_length_one() -> None:
    rows = unit_rows(np.array([[3, 4], [0, 0], [1e-30, 0], [-3e30, 4e30]], dtype=np.float32))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [[0.6, 0.8], [1, 0], [1, 0], [-0.6, 0.8]], rtol=1e-6)
    assert unit_rows(np.empty((0, 3), dtype=np.float32)).shape == (0, 3)
    with raises_naming(EncoderError, "not finite"):
        unit_rows(np.array([[np.nan, 1]], dtype=np.float32))


def test_prepare() -> None:
    assert prepare(["a", "b"], prefix="q: ") == ["q: a", "q: b"]
    assert prepare(["x" * 20_000]) == ["x" * MAX_CHARACTERS]
    assert prepare(["half \ud83d", "whole 😀"]) == ["half \ufffd", "whole 😀"]
    with raises_naming(InputError, "[sentence]"):
        prepare("one string")
    with raises_naming(InputError, 1, "NoneType"):
        prepare(["a", None])  # type: ignore[list-item]


def test_fingerprint_is_canonical() -> None:
    assert fingerprint({"a": 1, "b": "é"}) == fingerprint({"b": "é", "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert len(fingerprint({})) == 64


def test_file_hash(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_hash(path) == abc
    assert known_or_hashed(path, {}) == abc
    assert known_or_hashed(path, {"file": "AB" * 32}) == "ab" * 32
    with raises_naming(EncoderError, "absent"):
        file_hash(tmp_path / "absent")
