"""A text scored under one secret key and under reference keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.protocols import Alternatives
from hammingmark.records import EditHypotheses, Evidence, UnitScore
from hammingmark.stats.compare import TextTest
from hammingmark.stats.edit_lattice import EditLattice
from hammingmark.stats.nulls import KeyRandomization
from hammingmark.stats.references import coordinates, split_topic
from hammingmark.watermarks._shared.hashing import project_in_order
from hammingmark.watermarks._shared.similarity import cosines, pair_cosines
from hammingmark.watermarks.hamming.increments import Projection, along, projected
from hammingmark.watermarks.hamming.pairs import Pairs, grid_steps, natural_match
from hammingmark.watermarks.hamming.statistics import STATISTICS, Likelihood, Margin, Statistic

if TYPE_CHECKING:
    from hammingmark.watermarks.hamming.method import HammingMark

_CHUNK = 256  # sentences at a time, so that memory does not grow with the text
_NO_FLIP = 1e-6  # the probability that a bit of a text as written differs from when it was written
_STEPS = 128  # pairs of parts at a time, for the same reason


class HammingText:
    """A text, projected once under the secret key: a `ScoredText`.

    Args:
        mark: the method under that key.
        embeddings: of the text's sentences, (n, d).
        own: their projections, (n, 1, m), if already computed.
    """

    def __init__(
        self,
        mark: HammingMark,
        embeddings: NDArray[np.float32],
        own: NDArray[np.float32] | None = None,
    ) -> None:
        self._mark = mark
        self._embeddings = embeddings
        self._similarity = cosines(embeddings)
        self._own = project_in_order(embeddings, mark.planes) if own is None else own

    @cached_property
    def evidence(self) -> Evidence:
        """The scores and matching bits of transitions, and every statistic of the text."""
        rule = self._mark.rule
        unit, scale, threshold = "transition", float(rule.bits), float(rule.threshold)
        if not len(self._similarity):
            return Evidence(unit, (), scale, threshold, sums=dict.fromkeys(_RATIOS, 0.0))
        pairs = Pairs(self._own, self._similarity, rule=rule)
        agreement = pairs.agreement(rule.softness)[:, 0]
        rows = zip(
            agreement,
            self._mark.accepts(agreement),
            pairs.matching_bits()[:, 0],
            self._similarity,
            rule.bits * natural_match(self._similarity, rule=rule),
            strict=True,
        )
        own = {name: kind(rule).increments(pairs)[:, 0] for name, kind in STATISTICS.items()}
        return Evidence(
            unit,
            tuple(
                UnitScore(
                    float(score),
                    bool(valid),
                    {
                        "match": int(bits.sum()),
                        "bits": "".join("01"[bit] for bit in bits.astype(int)),
                        "cosine": float(cosine),
                        "expected": float(expected),
                    },
                )
                for score, valid, bits, cosine, expected in rows
            ),
            scale,
            threshold,
            means={name: float(own[name].mean()) for name in own if name not in _RATIOS},
            sums={name: float(own[name].sum()) for name in _RATIOS},
        )

    def test(self, statistic: str) -> TextTest:
        """The test over all keys."""
        return self._test(statistic, given_topic=False)

    def test_given_topic(self, statistic: str) -> TextTest:
        """The test over keys with the secret key's projection of the text's mean sentence."""
        return self._test(statistic, given_topic=True)

    def _test(self, name: str, *, given_topic: bool) -> TextTest:
        statistic = STATISTICS[name](self._mark.rule)
        own = self._increments(statistic, self._own.__getitem__)
        best, centre = self._bounds(statistic)
        return TextTest(
            increments=np.concatenate([part[:, 0] for part in own]),
            best=best,
            centre=centre,
            null=KeyRandomization(
                partial(self._reference_increments, statistic, given_topic=given_topic)
            ),
            is_ratio=statistic.is_ratio,
            alternatives=Alternatives(
                as_written=partial(
                    self._reference_increments, self._as_written, given_topic=given_topic
                ),
                reworded=partial(
                    self._reference_increments, self._reworded, given_topic=given_topic
                ),
            ),
        )

    @property
    def _as_written(self) -> Statistic:
        """The log-likelihood ratio of a text that was left as it was."""
        rule = self._mark.rule
        alternative = replace(rule.alternative, flip=_NO_FLIP, edited=0.0)
        return Likelihood(replace(rule, alternative=alternative))

    @property
    def _reworded(self) -> Statistic:
        """The log-likelihood ratio of a text of which every sentence was reworded."""
        rule = self._mark.rule
        return Margin(replace(rule, alternative=replace(rule.alternative, edited=1.0)))

    def _reference_increments(
        self, statistic: Statistic, *, given_topic: bool
    ) -> Iterator[Iterator[NDArray[np.float64]]]:
        """Increments under blocks of reference keys, chunk by chunk along the text: (c, k)."""
        mark = self._mark
        shared: NDArray[np.float32] | None = None
        free = self._embeddings
        if given_topic:
            shared, free = self._topic
        reduced = coordinates(free)
        for planes in mark.references.blocks(reduced.shape[1]):
            view = projected(reduced, planes, bits=mark.rule.bits, shared=shared)
            yield self._increments(statistic, view)

    @cached_property
    def _topic(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The projections of the topic's part of each sentence, (n, m), and the rest, (n, d)."""
        topic = split_topic(self._embeddings)
        projected_topic = project_in_order(topic.direction[None], self._mark.planes)[0]
        return topic.along[:, None] * projected_topic, topic.rest

    def _bounds(self, statistic: Statistic) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The largest increment of each transition, and the centre of its increments: (n - 1,)."""
        steps = grid_steps(self._similarity, rule=self._mark.rule)
        return statistic.best(steps), statistic.centre(steps)

    def _increments(self, statistic: Statistic, view: Projection) -> Iterator[NDArray[np.float64]]:
        """Increments chunk by chunk along the text: (c, k)."""
        return along(view, self._similarity, statistic=statistic, rule=self._mark.rule)


class EditedText(HammingText):
    """A possibly edited text, scored over all its readings: a `ScoredText`.

    An increment is the change of the log-likelihood ratio of the text so far by one sentence,
    averaged over readings (``stats.edit_lattice``); the statistic must be a likelihood ratio. The
    evidence is that of the text as it stands.

    Args:
        mark: the method under the secret key.
        embeddings: of all parts, (N, d).
        edits: where each part begins and ends.
    """

    def __init__(
        self, mark: HammingMark, embeddings: NDArray[np.float32], edits: EditHypotheses
    ) -> None:
        super().__init__(mark, embeddings)
        self._lattice = EditLattice(edits.begins, edits.ends, sentences=edits.sentences)
        unedited = slice(edits.sentences)
        self._plain = HammingText(mark, embeddings[unedited], self._own[unedited])
        first, second = embeddings[self._lattice.before], embeddings[self._lattice.after]
        self._similarity = pair_cosines(first, second)

    @cached_property
    def evidence(self) -> Evidence:
        """The evidence of the text as it stands."""
        return self._plain.evidence

    def _test(self, name: str, *, given_topic: bool) -> TextTest:
        if name not in _RATIOS:
            raise InputError(
                f"Edits need a likelihood ratio: use the statistic {' or '.join(_RATIOS)}."
            )
        return super()._test(name, given_topic=given_topic)

    def _bounds(self, statistic: Statistic) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds with every step at its best, which no reading and no mean of readings exceeds.

        Unmarked sentences lower a likelihood ratio by themselves, so that its centre is 0.
        """
        steps = grid_steps(self._similarity, rule=self._mark.rule)
        best = np.concatenate(list(self._lattice.read(iter(statistic.best(steps)[:, None]))))
        return best, np.zeros_like(best)

    def _increments(self, statistic: Statistic, view: Projection) -> Iterator[NDArray[np.float64]]:
        """Increments over all readings, chunk by chunk along the text: (c, k)."""
        increments = self._lattice.read(self._log_ratios(statistic, view))
        while chunk := list(islice(increments, _CHUNK)):
            yield np.stack(chunk)

    def _log_ratios(self, statistic: Statistic, view: Projection) -> Iterator[NDArray[np.float64]]:
        """The log-likelihood ratio of each step under k keys, (k,), in the lattice's order."""
        lattice = self._lattice
        for first in range(0, len(lattice.before), _STEPS):
            steps = slice(first, first + _STEPS)
            parts, place = np.unique(
                np.stack([lattice.before[steps], lattice.after[steps]]), return_inverse=True
            )
            before, after = view(parts)[place.reshape(2, -1)]
            pairs = Pairs(before, self._similarity[steps], rule=self._mark.rule, second=after)
            yield from statistic.increments(pairs)


_RATIOS = tuple(name for name, kind in STATISTICS.items() if kind.is_ratio)
