"""Texts under very many keys: which of them are worth a test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hammingmark.core.passages import WindowScan
from hammingmark.core.statistics import Rule, Statistic, cosines, grid_steps
from hammingmark.watermarks.hamming.increments import along, projected

_TOGETHER = 256  # keys that are looked at side by side


def best_keys(
    planes: Iterable[NDArray[np.float32]],
    texts: Sequence[NDArray[np.float32]],
    *,
    statistic: Statistic,
    rule: Rule,
) -> list[list[int]]:
    """For each text, the keys under which the whole of it and a passage of it do best.

    Each key's hyperplanes are made once for all texts, and each text is projected once for all
    keys that are looked at side by side.

    Args:
        planes: R of each key, (m, d).
        texts: embeddings of each text, (n, d), with two sentences or more.
        statistic: by which they are compared.
        rule: that of all the keys.

    Returns:
        One or two numbers of keys for each text.
    """
    similarities = [cosines(text) for text in texts]
    centres = [statistic.centre(grid_steps(each, rule=rule)) for each in similarities]
    best = [[(-np.inf, 0), (-np.inf, 0)] for _ in texts]
    waiting = iter(planes)
    first = 0
    while some := list(islice(waiting, _TOGETHER)):
        stacked = np.ascontiguousarray(np.concatenate(some).T)
        for number, text in enumerate(texts):
            total: NDArray[np.float64] = np.zeros(len(some))
            scan = WindowScan()
            done = 0
            view = projected(text, stacked, bits=rule.bits)
            for part in along(view, similarities[number], statistic=statistic, rule=rule):
                total += part.sum(axis=0)
                scan.update(part - centres[number][done : done + len(part), None])
                done += len(part)
            for place, scores in enumerate((total, scan.best)):
                top = int(np.argmax(scores))
                best[number][place] = max(best[number][place], (float(scores[top]), -first - top))
        first += len(some)
    return [list(dict.fromkeys(-place for _, place in each)) for each in best]
