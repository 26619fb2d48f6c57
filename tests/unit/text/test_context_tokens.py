"""Tokens with their contexts, put together and taken apart."""

from __future__ import annotations

import numpy as np

from hammingmark.text.context_tokens import split_contexts, with_contexts


def test_what_is_put_together_is_taken_apart() -> None:
    tokens = np.array([5, 6, 7, 8, 9])
    embeddings = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    values = with_contexts(tokens, embeddings, np.array([-1, -1, 0, 1, 1]))
    found, rows, which = split_contexts(values)
    assert found.tolist() == [7, 8, 9]
    np.testing.assert_array_equal(rows, embeddings)
    assert which.tolist() == [0, 1, 1]
    again = split_contexts(with_contexts(tokens[:3], embeddings, np.array([0, 1, 0])))[2]
    assert again.tolist() == [0, 1, 2]


def test_tokens_without_a_context() -> None:
    none = np.empty((0, 4), np.float32)
    for n in (0, 3):
        values = with_contexts(np.arange(n), none, np.full(n, -1))
        tokens, rows, which = split_contexts(values)
        assert (len(values), len(tokens), rows.shape, len(which)) == (n, 0, (0, 4), 0)
