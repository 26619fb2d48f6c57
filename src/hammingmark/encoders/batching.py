"""Sentences checked and put into batches of similar length, and vectors back in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hammingmark.errors import InputError
from hammingmark.protocols import FloatArray
from hammingmark.text.characters import well_formed

MAX_CHARACTERS = 16_384
"""A longer sentence is truncated here: tokenizers are slow on it, and no model reads so much."""

Progress = Callable[[int], None]
"""Called after each batch with the number of its sentences."""


def prepare(sentences: Sequence[str], *, prefix: str = "") -> list[str]:
    """Check n sentences, truncate those that are too long, and add the model's prefix to each.

    Raises:
        InputError: for a single string, or an item that is not a string.
    """
    if isinstance(sentences, str):
        raise InputError("encode takes a list of sentences, not one string. Write [sentence].")
    for index, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise InputError(f"Sentence {index} is a {type(sentence).__name__}, not a string.")
    return [prefix + well_formed(sentence[:MAX_CHARACTERS]) for sentence in sentences]


def plan(lengths: Sequence[int], *, max_tokens: int, max_size: int) -> list[list[int]]:
    """Group n sentences so that little is wasted on padding.

    The longest come first, so that a lack of memory appears at once. A batch of s sentences padded
    to t tokens has s t <= ``max_tokens`` and s <= ``max_size``; a sentence that is too long for
    that has a batch of its own.

    Args:
        lengths: tokens in each sentence.
        max_tokens: tokens in a batch, including padding.
        max_size: sentences in a batch.

    Returns:
        The batches, each a list of indices; every index occurs once.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    batches: list[list[int]] = []
    room = 0
    for index in order:
        if room == 0:
            batches.append([])
            room = max(1, min(max_size, max_tokens // max(1, lengths[index])))
        batches[-1].append(index)
        room -= 1
    return batches


def run_batches(
    batches: Sequence[Sequence[int]],
    run: Callable[[Sequence[int]], FloatArray],
    *,
    dimension: int,
    progress: Progress | None = None,
) -> FloatArray:
    """Embed each batch and put the rows back in order.

    Args:
        batches: indices 0 to n - 1, each once.
        run: returns the vectors (s, d) of the s sentences with these indices.
        dimension: d.
        progress: called with the size of each finished batch.

    Returns:
        (n, d), row i for sentence i.
    """
    vectors = np.empty((sum(map(len, batches)), dimension), dtype=np.float32)
    for batch in batches:
        vectors[list(batch)] = run(batch)
        if progress is not None:
            progress(len(batch))
    return vectors
