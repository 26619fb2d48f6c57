"""How texts read: what they repeat."""

from __future__ import annotations

from collections.abc import Sequence

from hammingmark.core.words import words_of
from hammingmark.errors import InputError


def mean_repetition(texts: Sequence[str], *, n: int = 4) -> float:
    """rep-n: the share of runs of n words that their text has said before; 0 if there are none.

    Every run counts once, so that longer texts count for more.
    """
    if n < 1:
        raise InputError(f"A run has at least 1 word, not {n}.")
    again = total = 0
    for text in texts:
        words = [word.lower() for word in words_of(text)]
        runs = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        again += len(runs) - len(set(runs))
        total += len(runs)
    return again / total if total else 0.0
