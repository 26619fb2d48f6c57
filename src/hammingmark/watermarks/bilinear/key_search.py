"""Texts under very many keys: which of them are worth a test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hammingmark.core.bilinear import as_directions, transition_scores
from hammingmark.core.hashing import project
from hammingmark.core.passages import scan_along
from hammingmark.core.ranking import keep_best
from hammingmark.core.sums import NormalIncrements

_TOGETHER = 64  # keys that are looked at side by side
_WHOLES = 3  # keys that are kept for the whole of a text
_WINDOWS = 1  # and for a passage of it


def best_keys(
    keys: Iterable[tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float64]]],
    texts: Sequence[NDArray[np.float32]],
    *,
    increments: NormalIncrements,
) -> list[list[int]]:
    """For each text, the few keys under which the whole of it or a passage of it does best.

    Each score is taken by itself here, and given those before it in the test of those few.

    Args:
        keys: R and S of each, (m, d), and what stands before a first sentence, (1, m).
        texts: embeddings of each text, (n, d), with two sentences or more.
        increments: by which they are compared.

    Returns:
        Numbers of keys, at most four for each text.
    """
    wholes: list[list[tuple[float, int]]] = [[] for _ in texts]
    windows: list[list[tuple[float, int]]] = [[] for _ in texts]
    waiting = iter(keys)
    first = 0
    while some := list(islice(waiting, _TOGETHER)):
        m = len(some[0][0])
        before = np.ascontiguousarray(np.concatenate([R for R, _, _ in some]).T)
        after = np.ascontiguousarray(np.concatenate([S for _, S, _ in some]).T)
        beginnings = np.concatenate([u for _, _, u in some])[None]
        for number, text in enumerate(texts):
            seen = as_directions(project(text[:-1], before, bits=m).astype(np.float64))
            directions = np.concatenate([beginnings, seen])
            following = project(text, after, bits=m).astype(np.float64)
            scores = transition_scores(directions, following).astype(np.float64)
            added = increments.of(scores)
            whole, window = scan_along([added], np.zeros(len(added)))
            wholes[number] = keep_best(wholes[number], whole, first, most=_WHOLES)
            windows[number] = keep_best(windows[number], window, first, most=_WINDOWS)
        first += len(some)
    return [
        list(dict.fromkeys(-place for _, place in one + other))
        for one, other in zip(wholes, windows, strict=True)
    ]
