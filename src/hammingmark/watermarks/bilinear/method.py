"""The method under one key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import ReferenceKeys, WatermarkKey
from hammingmark.protocols import Capabilities
from hammingmark.records import Choice, EditHypotheses
from hammingmark.stats.sums import NormalIncrements
from hammingmark.watermarks._shared.hashing import project_in_order
from hammingmark.watermarks.bilinear.config import BilinearConfig
from hammingmark.watermarks.bilinear.deviates import Alternative, log_likelihood_ratio
from hammingmark.watermarks.bilinear.key_search import best_keys
from hammingmark.watermarks.bilinear.marked_scores import HISTORIES
from hammingmark.watermarks.bilinear.scored_text import BilinearText, EditedText
from hammingmark.watermarks.bilinear.scores import as_directions, transition_scores


class BilinearMark:
    """The next sentence lies on the side that a secret bilinear form gives to the one before.

    With unit embeddings e and e' of neighbours and secret Gaussian matrices R and S, both (m, d),
    the score of the transition is

        z = (R e / |R e|) · S e'

    Whatever the two sentences are, z is a standard normal deviate over keys. A candidate is
    accepted when z is at least T. Before the first sentence a secret direction stands in the place
    of R e / |R e|.

    Args:
        key: the secret and the rule.
        histories: what may have become of marked text by the time it is judged.
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

    @property
    def capabilities(self) -> Capabilities:
        """Sentences in stages, edited texts, and a search among very many keys."""
        return Capabilities(
            sentences=self,
            staging_threshold=self.config.threshold,
            read_edited=self.read_edited,
            ranking=self,
        )

    @property
    def increments(self) -> NormalIncrements:
        """What a transition by itself says, whatever those before it were."""
        config = self.config
        return log_likelihood_ratio(config.acceptance, config.threshold, Alternative())

    def directions(self, embeddings: NDArray[np.float32]) -> NDArray[np.float64]:
        """R e / |R e| of sentences that others follow: (n, d) to (n, m)."""
        return as_directions(project_in_order(embeddings, self._before)[:, 0].astype(np.float64))

    def directions_before(self, embeddings: NDArray[np.float32]) -> NDArray[np.float64]:
        """What stands before each sentence of a text, the beginning first: (n, d) to (n, m)."""
        return np.vstack([self._beginning, self.directions(embeddings[:-1])])[: len(embeddings)]

    def projections(self, embeddings: NDArray[np.float32]) -> NDArray[np.float64]:
        """S e' of sentences that follow others: (n, d) to (n, m)."""
        return project_in_order(embeddings, self._after)[:, 0].astype(np.float64)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate that lies far enough, otherwise the best.

        Args:
            previous: embedding (d,) of the sentence before, or None at the beginning of a text.
            candidates: (c, d), in drawing order, at least one.
        """
        before = self._beginning if previous is None else self.directions(previous[None])
        scores = transition_scores(before, self.projections(candidates))
        valid = self.accepts(scores)
        index = int(np.argmax(valid if valid.any() else scores))
        return Choice(index, bool(valid[index]), tuple(float(score) for score in scores))

    def accepts(self, scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """At least T, for generation and detection alike."""
        enough: NDArray[np.bool_] = scores >= np.float32(self.config.threshold)
        return enough

    def read(self, values: NDArray[np.float32]) -> BilinearText:
        """Score a text by the embeddings (n, d) of its sentences."""
        return BilinearText(self, values)

    def read_edited(self, values: NDArray[np.float32], edits: EditHypotheses) -> EditedText:
        """Score a text by the embeddings (N, d) of all that its sentences may have been."""
        return EditedText(self, values, edits)

    def rank(
        self,
        keys: Sequence[WatermarkKey],
        texts: Sequence[NDArray[np.float32]],
        *,
        statistic: str,
    ) -> list[list[int]]:
        """For each text, the keys under which the whole of it and a passage of it do best."""
        parts = ((*matrices_of(key), beginning_of(key)) for key in keys)
        return best_keys(parts, texts, increments=self.increments)

    def like(self, key: WatermarkKey) -> BilinearMark:
        """The same under another key of the same configuration."""
        return BilinearMark(key, histories=self.histories, references=self.references)


def matrices_of(key: WatermarkKey) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """R and S, the secret matrices of a key: (m, d) each."""
    assert isinstance(key.config, BilinearConfig)
    m, d = key.config.rank, key.config.encoder.dimension
    both = key.secret.normals("bilinear", 2 * m * d).reshape(2, m, d)
    return both[0], both[1]


def beginning_of(key: WatermarkKey) -> NDArray[np.float64]:
    """The secret direction that stands before the first sentence of a text: (1, m)."""
    assert isinstance(key.config, BilinearConfig)
    deviates = key.secret.normals("beginning", key.config.rank)
    return as_directions(deviates.astype(np.float64)[None])
