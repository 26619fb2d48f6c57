"""Repeated contexts, at generation and at detection."""

from __future__ import annotations

import numpy as np
import pytest

from hammingmark.watermarks.synthid.tournament import first_in, is_new

TOKENS = np.random.default_rng(0).integers(0, 4, size=(3, 150))
"""So few tokens that contexts of three are repeated often."""


@pytest.mark.parametrize("history", [1, 16, 200])
def test_the_mask_is_that_of_transformers(history: int) -> None:
    torch = pytest.importorskip("torch")
    process = pytest.importorskip("transformers.generation.logits_process")
    theirs = process.SynthIDTextWatermarkLogitsProcessor(
        ngram_len=4,
        keys=[1, 2],
        sampling_table_size=16,
        sampling_table_seed=0,
        context_history_size=history,
        device=torch.device("cpu"),
    )
    mask = theirs.compute_context_repetition_mask(torch.from_numpy(TOKENS)).bool().numpy()
    assert 0.02 < mask.mean() < 0.99
    for row, expected in zip(TOKENS, mask, strict=True):
        contexts = np.lib.stride_tricks.sliding_window_view(row, 3)[:-1]
        np.testing.assert_array_equal(first_in(contexts, history), expected)


def test_writing_and_reading_agree() -> None:
    history, length = 16, 3
    for row in TOKENS:
        padded = np.concatenate([np.full(history + length, -1), row])
        contexts = np.lib.stride_tricks.sliding_window_view(row, length)
        windows = np.lib.stride_tricks.sliding_window_view(padded, history + length)
        written = is_new(windows, length)[length:]  # after so many tokens of the text and more
        np.testing.assert_array_equal(written, first_in(contexts, history))


def test_an_incomplete_context_is_not_new() -> None:
    windows = np.array([[-1, -1, -1, 5, 6], [-1, -1, 4, 5, 6], [-1, -1, -1, -1, -1]])
    np.testing.assert_array_equal(is_new(windows, 3), [False, True, False])
    np.testing.assert_array_equal(is_new(windows[:, -3:], 3), [False, True, False])


def test_no_context_at_all() -> None:
    assert first_in(np.empty((0, 3), np.int64), 5).shape == (0,)
