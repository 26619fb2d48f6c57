"""Texts under very many keys: which of them are worth a test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hammingmark.stats.ranking import BestKeys
from hammingmark.stats.sums import NormalIncrements
from hammingmark.watermarks._shared.hashing import project
from hammingmark.watermarks.bilinear.scores import as_directions, transition_scores

_TOGETHER = 64  # keys that are looked at side by side


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
    found = [BestKeys() for _ in texts]
    waiting = iter(keys)
    first = 0
    while some := list(islice(waiting, _TOGETHER)):
        m = len(some[0][0])
        before = np.ascontiguousarray(np.concatenate([R for R, _, _ in some]).T)
        after = np.ascontiguousarray(np.concatenate([S for _, S, _ in some]).T)
        beginnings = np.concatenate([u for _, _, u in some])[None]
        for text, best in zip(texts, found, strict=True):
            seen = as_directions(project(text[:-1], before, bits=m).astype(np.float64))
            directions = np.concatenate([beginnings, seen])
            following = project(text, after, bits=m).astype(np.float64)
            scores = transition_scores(directions, following).astype(np.float64)
            added = increments.of(scores)
            best.update([added], first, centre=np.zeros(len(added)))
        first += len(some)
    return [best.keys for best in found]
