"""A text of which only some sentences count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hammingmark.records import Evidence
from hammingmark.watermarks.hamming.increments import Projection
from hammingmark.watermarks.hamming.scored_text import HammingText
from hammingmark.watermarks.hamming.statistics import STATISTICS, Statistic

if TYPE_CHECKING:
    from hammingmark.watermarks.hamming.method import HammingMark


class PartialText(HammingText):
    """A text scored by some of its transitions: a `ScoredText`.

    The increments of the others are 0 under every key. That is another statistic of the embeddings
    and the hyperplanes, so the test over reference keys stays exact.

    Args:
        mark: the method under the secret key.
        embeddings: of all sentences, (n, d).
        included: which sentences count, (n,): a transition does if its second sentence does.
    """

    def __init__(
        self, mark: HammingMark, embeddings: NDArray[np.float32], included: NDArray[np.bool_]
    ) -> None:
        super().__init__(mark, embeddings)
        self._included = included[1:]

    @cached_property
    def evidence(self) -> Evidence:
        """The scores of all transitions, and the statistics of those that count."""
        whole = super().evidence
        if not whole.scores:
            return whole
        mark = self._mark
        own = {
            name: np.concatenate(
                [part[:, 0] for part in self._increments(kind(mark.rule), self._own.__getitem__)]
            )
            for name, kind in STATISTICS.items()
        }
        count = max(1, int(self._included.sum()))
        return replace(
            whole.counting(self._included.tolist()),
            means={name: float(own[name].sum()) / count for name in whole.means},
            sums={name: float(own[name].sum()) for name in whole.sums},
        )

    def _bounds(self, statistic: Statistic) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        best, centre = super()._bounds(statistic)
        return np.where(self._included, best, 0.0), np.where(self._included, centre, 0.0)

    def _increments(self, statistic: Statistic, view: Projection) -> Iterator[NDArray[np.float64]]:
        first = 0
        for part in super()._increments(statistic, view):
            last = first + len(part)
            yield np.where(self._included[first:last, None], part, 0.0)
            first = last
