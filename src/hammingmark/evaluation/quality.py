"""How texts read: what they repeat."""

from __future__ import annotations

from collections.abc import Sequence

from hammingmark.core.words import words_of
from hammingmark.errors import InputError


def near_copies(texts: Sequence[Sequence[str]], *, most: float = 0.5, n: int = 4) -> float:
    """The share of sentences of which more than ``most`` of the runs of n words came before.

    Args:
        texts: each as its sentences.
        most: what a sentence may repeat without counting.
        n: words in a run; a sentence with fewer is a copy if it stood there before as it is.
    """
    copied = total = 0
    for sentences in texts:
        said: set[tuple[str, ...]] = set()
        for sentence in sentences:
            words = [word.lower() for word in words_of(sentence)]
            size = min(n, len(words))
            runs = {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}
            copied += bool(words) and len(runs & said) > most * len(runs)
            total += 1
            said |= runs
    return copied / total if total else 0.0


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
