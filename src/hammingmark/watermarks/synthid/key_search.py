"""Texts under very many keys: which of them are worth a test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hammingmark.stats.ranking import BestKeys
from hammingmark.watermarks.synthid.g_statistics import GStatistic
from hammingmark.watermarks.synthid.g_values import GValueHash, Hashing

_TOGETHER = 1 << 19  # g-values that are computed side by side


def best_keys(
    keys: Iterable[NDArray[np.int64]],
    texts: Sequence[NDArray[np.int64]],
    *,
    hashing: Hashing,
    statistic: GStatistic,
) -> list[list[int]]:
    """For each text, the few keys under which the whole of it or a passage of it does best.

    Args:
        keys: of the depths of each, (depth,).
        texts: runs of tokens that count, of each text, (u, n).
        hashing: of all keys.
        statistic: by which they are compared.

    Returns:
        Numbers of keys, at most four for each text; the first for one without a run.
    """
    found = [BestKeys() for _ in texts]
    longest = max((len(text) for text in texts), default=1)
    waiting = iter(keys)
    first = 0
    while some := list(islice(waiting, 1)):
        together = max(1, _TOGETHER // (max(1, longest) * len(some[0])))
        some.extend(islice(waiting, together - 1))
        hashes = GValueHash.of_many(np.stack(some), hashing)
        for text, best in zip(texts, found, strict=True):
            added = statistic.of(hashes.g_values(hashes.hashes(text))).T  # (u, K)
            best.update([added], first, centre=np.full(len(text), statistic.centre))
        first += len(some)
    return [best.keys for best in found]
