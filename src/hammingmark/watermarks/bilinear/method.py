"""The bilinear method under one key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import ReferenceKeys, WatermarkKey
from hammingmark.protocols import Capabilities
from hammingmark.records import Choice, EditHypotheses
from hammingmark.stats.ranking import rank_keys
from hammingmark.stats.sums import NormalIncrements
from hammingmark.watermarks._shared.choices import first_accepted
from hammingmark.watermarks._shared.hashing import project, project_in_order
from hammingmark.watermarks.bilinear.config import BilinearConfig
from hammingmark.watermarks.bilinear.deviates import Alternative, log_likelihood_ratio
from hammingmark.watermarks.bilinear.marked_scores import HISTORIES
from hammingmark.watermarks.bilinear.scored_text import BilinearText, EditedText
from hammingmark.watermarks.bilinear.scores import as_directions, transition_scores

_KEY_BLOCK = 64  # keys that are compared side by side


class BilinearMark:
    """The secret bilinear form of neighbouring sentences reaches a threshold.

    With unit embeddings e and e' of neighbours and secret Gaussian matrices R and S, both (m, d),
    the score of the transition is

        z = (R e / |R e|) · S e'

    For any two sentences, z is a standard normal deviate over keys. A candidate is accepted if z is
    at least T. For the first sentence a secret direction replaces R e / |R e|.

    Args:
        key: the secret and the rule.
        histories: how marked text may have been edited before detection.
        references: reference matrices for texts that may have been edited; by default the key's.
    """

    name = "bilinear"
    Config = BilinearConfig
    pool = 1
    judges_beginnings = True
    statistics: Sequence[str] = ("likelihood",)

    def __init__(
        self,
        key: WatermarkKey,
        *,
        histories: Sequence[Alternative] = HISTORIES,
        references: ReferenceKeys | None = None,
    ) -> None:
        assert isinstance(key.config, BilinearConfig)
        self.key = key
        self.config = key.config
        self.histories = tuple(histories)
        self.references = references or ReferenceKeys(key.secret, bits=self.config.rank)
        self._before, self._after = key.expand_once(matrices_of)
        self._beginning = key.expand_once(beginning_of)

    @classmethod
    def examples(cls, encoder: EncoderId) -> Mapping[str, BilinearConfig]:
        """Configurations for the contract suite."""
        return {
            "default": BilinearConfig(encoder=encoder),
            "thin": BilinearConfig(encoder=encoder, rank=2, acceptance=0.6),
            "strict": BilinearConfig(encoder=encoder, rank=40, acceptance=0.1),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """Drawing in stages, edited and partial texts, and ranking of very many keys."""
        return Capabilities(
            sentences=self,
            staging_threshold=self.config.threshold,
            read_edited=self.read_edited,
            read_part=self.read_part,
            ranking=self,
        )

    @property
    def increments(self) -> NormalIncrements:
        """The log-likelihood ratio of a single transition, regardless of the earlier ones."""
        config = self.config
        return log_likelihood_ratio(config.acceptance, config.threshold, Alternative())

    def directions(self, embeddings: NDArray[np.float32]) -> NDArray[np.float64]:
        """R e / |R e| of preceding sentences: (n, d) to (n, m)."""
        return as_directions(project_in_order(embeddings, self._before)[:, 0].astype(np.float64))

    def directions_before(self, embeddings: NDArray[np.float32]) -> NDArray[np.float64]:
        """The direction before each sentence of a text, the secret one first: (n, d) to (n, m)."""
        return np.vstack([self._beginning, self.directions(embeddings[:-1])])[: len(embeddings)]

    def projections(self, embeddings: NDArray[np.float32]) -> NDArray[np.float64]:
        """S e' of following sentences: (n, d) to (n, m)."""
        return project_in_order(embeddings, self._after)[:, 0].astype(np.float64)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate whose score reaches T, otherwise the best.

        Args:
            previous: embedding (d,) of the sentence before, or None at the beginning of a text.
            candidates: (c, d), in drawing order, at least one.
        """
        before = self._beginning if previous is None else self.directions(previous[None])
        scores = transition_scores(before, self.projections(candidates))
        return first_accepted(scores, self.accepts(scores))

    def accepts(self, scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which scores are at least T, for generation and detection: (n,) to (n,)."""
        accepted: NDArray[np.bool_] = scores >= np.float32(self.config.threshold)
        return accepted

    def read(self, values: NDArray[np.float32]) -> BilinearText:
        """Score a text by the embeddings (n, d) of its sentences."""
        return BilinearText(self, values)

    def read_part(self, values: NDArray[np.float32], included: NDArray[np.bool_]) -> BilinearText:
        """Score a text by the embeddings (n, d) of its sentences, of which some count, (n,)."""
        return BilinearText(self, values, included)

    def read_edited(self, values: NDArray[np.float32], edits: EditHypotheses) -> EditedText:
        """Score a possibly edited text by the embeddings (N, d) of all its parts."""
        return EditedText(self, values, edits)

    def rank(
        self,
        keys: Sequence[WatermarkKey],
        texts: Sequence[NDArray[np.float32]],
        *,
        statistic: str,
    ) -> list[list[int]]:
        """For each text, the keys under which the whole of it and a passage of it do best.

        Here each score is taken by itself; the test of those few keys takes it given the earlier
        scores.
        """
        centres = [np.zeros(len(text)) for text in texts]
        return rank_keys(
            keys, centres, partial(self._increments_under, texts), block_size=_KEY_BLOCK
        )

    def like(self, key: WatermarkKey) -> BilinearMark:
        """The same method under another key of the same configuration."""
        return BilinearMark(key, histories=self.histories, references=self.references)

    def _increments_under(
        self, texts: Sequence[NDArray[np.float32]], keys: Sequence[WatermarkKey]
    ) -> Iterator[list[NDArray[np.float64]]]:
        """For each text (n, d), the increments of its sentences under k keys: (n, k)."""
        matrices = [matrices_of(key) for key in keys]
        before = np.ascontiguousarray(np.concatenate([R for R, _ in matrices]).T)
        after = np.ascontiguousarray(np.concatenate([S for _, S in matrices]).T)
        beginnings = np.concatenate([beginning_of(key) for key in keys])[None]
        m = self.config.rank
        for text in texts:
            preceding = as_directions(project(text[:-1], before, bits=m).astype(np.float64))
            directions = np.concatenate([beginnings, preceding])
            following = project(text, after, bits=m).astype(np.float64)
            scores = transition_scores(directions, following).astype(np.float64)
            yield [self.increments.of(scores)]


def matrices_of(key: WatermarkKey) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """R and S, the secret matrices of a key: (m, d) each."""
    assert isinstance(key.config, BilinearConfig)
    m, d = key.config.rank, key.config.encoder.dimension
    R, S = key.secret.normals("bilinear", 2 * m * d).reshape(2, m, d)
    return R, S


def beginning_of(key: WatermarkKey) -> NDArray[np.float64]:
    """The secret direction before the first sentence of a text: (1, m)."""
    assert isinstance(key.config, BilinearConfig)
    deviates = key.secret.normals("beginning", key.config.rank)
    return as_directions(deviates.astype(np.float64)[None])
