"""How texts read: what they repeat."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from hammingmark.errors import InputError

_WORD = re.compile(r"\w+")


def repetition(text: str, *, n: int = 4) -> float:
    """rep-n: the share of a text's runs of n words that it has said before; 0 if it has none."""
    if n < 1:
        raise InputError(f"A run has at least 1 word, not {n}.")
    words = _WORD.findall(text.lower())
    runs = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    total = sum(runs.values())
    return 1.0 - len(runs) / total if total else 0.0


def mean_repetition(texts: Sequence[str], *, n: int = 4) -> float:
    """rep-n over texts, each counting by its runs."""
    again = total = 0
    for text in texts:
        words = _WORD.findall(text.lower())
        runs = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        again += len(runs) - len(set(runs))
        total += len(runs)
    return again / total if total else 0.0
