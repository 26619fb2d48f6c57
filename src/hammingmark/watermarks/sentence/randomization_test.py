"""One text under one secret key and under reference keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hammingmark.core import statistics
from hammingmark.core.edit_lattice import EditLattice
from hammingmark.core.hashing import project, project_in_order
from hammingmark.core.references import coordinates, split_topic
from hammingmark.core.statistics import Rule, Scoring
from hammingmark.keys import ReferenceKeys
from hammingmark.records import EditHypotheses, StatisticName, TopicName

_CHUNK = 256  # sentences at a time, so that memory does not grow with the text
_STEPS = 128  # pairs of parts at a time, likewise

Projection = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Embeddings (n, d) to their projections under k keys (n, k, m)."""


class HammingTest:
    """A text's increments under the secret key and under reference keys, by one function.

    Attributes:
        own: what each transition adds to the statistic under the secret key, (n - 1,).
        best: the most that any key could give each transition, (n - 1,).
        centre: what to take off each increment before windows are compared, (n - 1,).
        is_ratio: whether the increments are log-likelihood ratios.
    """

    def __init__(
        self,
        embeddings: NDArray[np.float32],
        planes: NDArray[np.float32],
        references: ReferenceKeys,
        *,
        statistic: StatisticName,
        topic: TopicName,
        rule: Rule,
    ) -> None:
        self._embeddings = embeddings
        self._planes = planes
        self._references = references
        self._topic = topic
        self._bits = rule.bits
        self._scoring = Scoring(self._similarity(), statistic=statistic, rule=rule)
        self.is_ratio = statistic in ("likelihood", "margin")
        self.best = self._best()
        self.centre = self._scoring.centre
        secret = partial(project_in_order, planes=planes)
        self.own = np.concatenate([part[:, 0] for part in self._increments(embeddings, secret)])

    def reference_blocks(self) -> Iterator[Iterator[NDArray[np.float64]]]:
        """Block after block of reference keys, each chunk by chunk along the text: (c, k)."""
        shared: NDArray[np.float32] | None = None
        free = self._embeddings
        if self._topic == "given":
            topic = split_topic(self._embeddings)
            seen = project_in_order(topic.direction[None], self._planes)[0]
            shared = topic.along[:, None] * seen
            free = topic.rest
        reduced = coordinates(free)
        block = 0
        while True:
            planes = self._references.planes(block, reduced.shape[1])
            yield self._increments(
                reduced, partial(project, planes=planes, bits=self._bits), shared
            )
            block += 1

    def _similarity(self) -> NDArray[np.float64]:
        """Cosine of all that is compared."""
        return statistics.cosines(self._embeddings)

    def _best(self) -> NDArray[np.float64]:
        return self._scoring.best

    def _increments(
        self,
        embeddings: NDArray[np.float32],
        view: Projection,
        shared: NDArray[np.float32] | None = None,
    ) -> Iterator[NDArray[np.float64]]:
        """Chunk by chunk; ``shared`` (n, m) is what every key has in common, if anything."""
        for first in range(0, len(embeddings) - 1, _CHUNK):
            part = slice(first, first + _CHUNK + 1)
            projections = view(embeddings[part])
            if shared is not None:
                projections += shared[part, None, :]
            yield self._scoring.increments(projections, first=first)


class EditedHammingTest(HammingTest):
    """The same for a text that somebody may have edited: read in every way that its parts allow.

    The increments say by how much each sentence changes the likelihood ratio of the text so far,
    averaged over readings (``core.edit_lattice``); the statistic must be a likelihood ratio.

    Args:
        embeddings: of all parts, (N, d).
        planes: R of the secret key, (m, d).
        references: the reference keys.
        statistic: ``margin`` or ``likelihood``.
        topic: whether reference keys see the parts' mean as the secret key does.
        rule: m, T and the alternative.
        parts: where each part begins and ends.
    """

    def __init__(
        self,
        embeddings: NDArray[np.float32],
        planes: NDArray[np.float32],
        references: ReferenceKeys,
        *,
        statistic: StatisticName,
        topic: TopicName,
        rule: Rule,
        parts: EditHypotheses,
    ) -> None:
        self._lattice = EditLattice(parts.begins, parts.ends, sentences=parts.sentences)
        super().__init__(
            embeddings, planes, references, statistic=statistic, topic=topic, rule=rule
        )
        self.centre = np.zeros_like(self.best)  # a likelihood ratio pulls windows down by itself

    def _similarity(self) -> NDArray[np.float64]:
        first, second = (
            self._embeddings[self._lattice.before],
            self._embeddings[self._lattice.after],
        )
        return statistics.pair_cosines(first, second)

    def _best(self) -> NDArray[np.float64]:
        """With every step at its best: no reading, and so no mean of readings, does better."""
        return np.concatenate(list(self._lattice.read(iter(self._scoring.best[:, None]))))

    def _increments(
        self,
        embeddings: NDArray[np.float32],
        view: Projection,
        shared: NDArray[np.float32] | None = None,
    ) -> Iterator[NDArray[np.float64]]:
        told = self._lattice.read(self._worth(embeddings, view, shared))
        while some := list(islice(told, _CHUNK)):
            yield np.stack(some)

    def _worth(
        self,
        embeddings: NDArray[np.float32],
        view: Projection,
        shared: NDArray[np.float32] | None,
    ) -> Iterator[NDArray[np.float64]]:
        """Each step's log-likelihood ratio under k keys, (k,), in the lattice's order."""
        lattice = self._lattice
        for first in range(0, len(lattice.before), _STEPS):
            some = slice(first, first + _STEPS)
            used, place = np.unique(
                np.stack([lattice.before[some], lattice.after[some]]), return_inverse=True
            )
            projections = view(embeddings[used])
            if shared is not None:
                projections += shared[used, None, :]
            one, other = projections[place.reshape(2, -1)]
            yield from self._scoring.increments(one, first=first, second=other)
