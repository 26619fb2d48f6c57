"""Texts under very many keys: which of them are worth a test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hammingmark.stats.ranking import BestKeys
from hammingmark.stats.references import without_topic
from hammingmark.watermarks._shared.similarity import cosines
from hammingmark.watermarks.hamming.increments import along, projected
from hammingmark.watermarks.hamming.statistics import Rule, Statistic, grid_steps

_TOGETHER = 256  # keys that are looked at side by side
_WHOLES = 4  # keys that are kept for the whole of a text, beside one for a passage


def best_keys(
    planes: Iterable[NDArray[np.float32]],
    texts: Sequence[NDArray[np.float32]],
    *,
    statistic: Statistic,
    rule: Rule,
) -> list[list[int]]:
    """For each text, the few keys under which the whole of it or a passage of it does best.

    Each is looked at as it stands and without its mean sentence: given the topic, a key that likes
    the topic is no better than others, and would otherwise stand before the one that marked.
    Each key's hyperplanes are made once for all texts, and each text is projected once for all
    keys that are looked at side by side.

    Args:
        planes: R of each key, (m, d).
        texts: embeddings of each text, (n, d), with two sentences or more.
        statistic: by which they are compared.
        rule: that of all the keys.

    Returns:
        Numbers of keys, at most ten for each text.
    """
    looks = [
        [_Look(rows, statistic, rule) for rows in (text, without_topic(text))] for text in texts
    ]
    waiting = iter(planes)
    first = 0
    while some := list(islice(waiting, _TOGETHER)):
        stacked = np.ascontiguousarray(np.concatenate(some).T)
        for look in (each for both in looks for each in both):
            look.update(stacked, first)
        first += len(some)
    return [list(dict.fromkeys(key for look in both for key in look.keys)) for both in looks]


class _Look:
    """One way to look at a text, and the keys under which it does best so far."""

    def __init__(self, rows: NDArray[np.float32], statistic: Statistic, rule: Rule) -> None:
        self._rows = rows
        self._statistic = statistic
        self._rule = rule
        self._similarity = cosines(rows)
        self._centre = statistic.centre(grid_steps(self._similarity, rule=rule))
        self._best = BestKeys(wholes=_WHOLES)

    @property
    def keys(self) -> list[int]:
        """Their numbers."""
        return self._best.keys

    def update(self, stacked: NDArray[np.float32], first: int) -> None:
        """Look at more keys, numbered from ``first``: their planes side by side, (d, k m)."""
        view = projected(self._rows, stacked, bits=self._rule.bits)
        parts = along(view, self._similarity, statistic=self._statistic, rule=self._rule)
        self._best.update(parts, first, centre=self._centre)
