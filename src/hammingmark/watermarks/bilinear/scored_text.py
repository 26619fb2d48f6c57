"""A text scored under one secret key."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from itertools import islice, pairwise, starmap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hammingmark.protocols import Alternatives
from hammingmark.records import EditHypotheses, Evidence, UnitScore
from hammingmark.stats.compare import TextTest
from hammingmark.stats.edit_lattice import EditLattice
from hammingmark.stats.nulls import KeyRandomization
from hammingmark.stats.references import coordinates
from hammingmark.stats.sums import NormalIncrements
from hammingmark.watermarks._shared.hashing import project
from hammingmark.watermarks.bilinear.deviates import Alternative, log_likelihood_ratio
from hammingmark.watermarks.bilinear.importance import ImportanceNull
from hammingmark.watermarks.bilinear.marked_scores import MarkedScores
from hammingmark.watermarks.bilinear.scores import covariance, transition_scores, triangular_factor

if TYPE_CHECKING:
    from hammingmark.watermarks.bilinear.method import BilinearMark

SECTION = 256
"""The most transitions that are compared together. The work grows with their third power, while
further ones add less evidence, because the earlier ones determine more of the matrix S."""

_CHUNK = 256  # sentences at a time, so that memory does not grow with the text
_AS_WRITTEN, _REWORDED = Alternative(edited=0.0), Alternative(edited=1.0)
_STEPS = 128  # pairs of parts at a time, for the same reason


class BilinearText:
    """A text, projected once: a `ScoredText`.

    Args:
        mark: the method under the secret key.
        embeddings: of the text's sentences, (n, d).
        included: which sentences count, (n,); by default all. The scores of those are jointly
            normal with their part of the covariance, so that the test stays exact.
    """

    test_given_topic = None

    def __init__(
        self,
        mark: BilinearMark,
        embeddings: NDArray[np.float32],
        included: NDArray[np.bool_] | None = None,
    ) -> None:
        self._mark = mark
        self._embeddings = embeddings
        self._included = np.ones(len(embeddings), np.bool_) if included is None else included
        self._directions = mark.directions_before(embeddings)
        self._scores = transition_scores(self._directions, mark.projections(embeddings))

    @cached_property
    def evidence(self) -> Evidence:
        """The scores, which of them satisfy the rule, and the log-likelihood ratio of the text."""
        mark = self._mark
        scores = tuple(
            UnitScore(float(score), bool(valid), counted=bool(counted))
            for score, valid, counted in zip(
                self._scores, mark.accepts(self._scores), self._included, strict=True
            )
        )
        threshold = float(np.float32(mark.config.threshold))
        if not scores:
            return Evidence("sentence", (), None, threshold, sums={"likelihood": 0.0})
        return Evidence(
            "sentence",
            scores,
            None,
            threshold,
            context_units=1,
            sums={"likelihood": float(self._test.increments.sum())},
        )

    def test(self, statistic: str) -> TextTest:
        """The test over all keys, exact given R."""
        return self._test

    @cached_property
    def _test(self) -> TextTest:
        null = ImportanceNull([scores for scores, _ in self._sections], self._mark.key.secret)
        own = np.concatenate(
            [scores.log_ratios(part[:, None])[:, 0] for scores, part in self._sections]
        )
        return TextTest(own, null.best, np.zeros_like(own), null, is_ratio=True)

    @cached_property
    def _sections(self) -> list[tuple[MarkedScores, NDArray[np.float64]]]:
        """The joint distribution of the scores of each section, and the scores (n,)."""
        threshold = float(np.float32(self._mark.config.threshold))
        n = len(self._scores)
        count = max(1, -(-n // SECTION))  # sections of about the same length
        edges = [n * number // count for number in range(count + 1)]
        parts = list(starmap(slice, pairwise(edges)))
        return [
            (
                MarkedScores(
                    threshold,
                    *triangular_factor(
                        covariance(self._directions[part], self._embeddings[part]),
                        self._included[part],
                    ),
                    self._mark.histories,
                ),
                self._scores[part].astype(np.float64),
            )
            for part in parts
        ]


class EditedText:
    """A possibly edited text, scored over all its readings: a `ScoredText`.

    An increment is the change of the log-likelihood ratio of the text so far by one sentence,
    averaged over readings (``stats.edit_lattice``). Increments are compared with those under
    reference matrices in place of S. The evidence is that of the text as it stands.

    Args:
        mark: the method under the secret key.
        embeddings: of all parts, (N, d).
        edits: where each part begins and ends.
    """

    test_given_topic = None

    def __init__(
        self, mark: BilinearMark, embeddings: NDArray[np.float32], edits: EditHypotheses
    ) -> None:
        self._mark = mark
        self._embeddings = embeddings
        self._lattice = EditLattice(edits.begins, edits.ends, sentences=edits.sentences)
        self._plain = BilinearText(mark, embeddings[: edits.sentences])
        self._directions = mark.directions(embeddings)
        self._beginning = mark.directions_before(embeddings[:1])

    @cached_property
    def evidence(self) -> Evidence:
        """The evidence of the text as it stands."""
        return self._plain.evidence

    def test(self, statistic: str) -> TextTest:
        """The test over all keys, exact given R."""
        increments = self._mark.increments
        own = self._along(self._mark.projections(self._embeddings)[:, None], increments)
        ceiling = np.full((len(self._lattice.before), 1), increments.best)
        best = np.concatenate([[increments.best], *self._lattice.read(iter(ceiling))])
        return TextTest(
            increments=np.concatenate([part[:, 0] for part in own]),
            best=best,
            centre=np.zeros_like(best),
            null=KeyRandomization(partial(self._reference_increments, increments)),
            is_ratio=True,
            alternatives=Alternatives(
                as_written=partial(self._reference_increments, self._ratio_of(_AS_WRITTEN)),
                reworded=partial(self._reference_increments, self._ratio_of(_REWORDED)),
            ),
        )

    def _ratio_of(self, alternative: Alternative) -> NormalIncrements:
        config = self._mark.config
        return log_likelihood_ratio(config.acceptance, config.threshold, alternative)

    def _reference_increments(
        self, increments: NormalIncrements
    ) -> Iterator[Iterator[NDArray[np.float64]]]:
        """Increments under blocks of reference matrices, chunk by chunk along the text: (c, k)."""
        mark = self._mark
        reduced = coordinates(self._embeddings)
        for planes in mark.references.blocks(reduced.shape[1]):
            yield self._along(project(reduced, planes, bits=mark.config.rank), increments)

    def _along(
        self, projections: NDArray[np.floating], increments: NormalIncrements
    ) -> Iterator[NDArray[np.float64]]:
        """Increments from projections (N, k, m), chunk by chunk along the text: (c, k).

        The first sentence is taken as it stands.
        """
        first = transition_scores(self._beginning, projections[0].astype(np.float64))
        yield increments.of(first.astype(np.float64))[None]
        steps = self._lattice.read(self._log_ratios(projections, increments))
        while chunk := list(islice(steps, _CHUNK)):
            yield np.stack(chunk)

    def _log_ratios(
        self, projections: NDArray[np.floating], increments: NormalIncrements
    ) -> Iterator[NDArray[np.float64]]:
        """The log-likelihood ratio of each step under k keys, (k,), in the lattice's order."""
        lattice = self._lattice
        for first in range(0, len(lattice.before), _STEPS):
            steps = slice(first, first + _STEPS)
            directions = self._directions[lattice.before[steps], None]
            following = projections[lattice.after[steps]].astype(np.float64)
            scores = transition_scores(directions, following)
            yield from increments.of(scores.astype(np.float64))
