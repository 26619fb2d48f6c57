"""HammingMark under one key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import ReferenceKeys, WatermarkKey
from hammingmark.protocols import Capabilities
from hammingmark.records import Choice, EditHypotheses
from hammingmark.stats.ranking import rank_keys
from hammingmark.stats.references import without_topic
from hammingmark.watermarks._shared.choices import first_accepted, free_choice
from hammingmark.watermarks._shared.hashing import project_in_order
from hammingmark.watermarks._shared.similarity import cosines
from hammingmark.watermarks.hamming.config import HammingConfig
from hammingmark.watermarks.hamming.increments import along, projected
from hammingmark.watermarks.hamming.pairs import Alternative, Pairs, Rule, grid_steps
from hammingmark.watermarks.hamming.partial_text import PartialText
from hammingmark.watermarks.hamming.scored_text import EditedText, HammingText
from hammingmark.watermarks.hamming.statistics import STATISTICS

_KEY_BLOCK = 256  # keys that are compared side by side
_WHOLES = 4  # keys to keep for the whole of a text, beside one for a passage


class HammingMark:
    """Neighbouring sentences agree in enough bits of a secret hash.

    Args:
        key: the secret and the rule.
        alternative: how marked text is expected to look at detection.
        references: the reference keys; by default the key's own.
    """

    name = "hamming"
    Config = HammingConfig
    pool = 1
    judges_beginnings = False
    statistics: Sequence[str] = tuple(STATISTICS)

    def __init__(
        self,
        key: WatermarkKey,
        *,
        alternative: Alternative | None = None,
        references: ReferenceKeys | None = None,
    ) -> None:
        assert isinstance(key.config, HammingConfig)
        self.key = key
        self.config = config = key.config
        self.rule = Rule(
            config.bits,
            config.threshold,
            alternative or Alternative(),
            config.softness,
            config.residual,
        )
        self.planes = key.expand_once(planes_of)
        self.references = references or ReferenceKeys(key.secret, bits=config.bits)

    @classmethod
    def examples(cls, encoder: EncoderId) -> Mapping[str, HammingConfig]:
        """Configurations for the contract suite: hard and soft, whole sentences and residuals."""
        return {
            "whole": HammingConfig(encoder=encoder),
            "soft": HammingConfig(encoder=encoder, threshold=5.3, softness=0.5),
            "residual": HammingConfig(encoder=encoder, threshold=5, residual=True),
            "soft-residual": HammingConfig(
                encoder=encoder, threshold=4.3, softness=0.5, residual=True
            ),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """Edited texts, and ranking of very many keys."""
        return Capabilities(
            sentences=self, read_edited=self.read_edited, read_part=self.read_part, ranking=self
        )

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate that agrees enough with the previous sentence, otherwise the best.

        Args:
            previous: embedding (d,) of the sentence before, or None if there is none.
            candidates: (c, d), in drawing order, at least one.
        """
        if previous is None:
            return free_choice(len(candidates), score=float(self.config.bits))
        # Each candidate after the previous sentence, in the pairs that detection would see.
        rows = np.empty((2 * len(candidates), candidates.shape[1]), np.float32)
        rows[::2], rows[1::2] = previous, candidates
        pairs = Pairs(project_in_order(rows, self.planes), cosines(rows), rule=self.rule)
        agreement = pairs.agreement(self.rule.softness)[::2, 0]
        return first_accepted(agreement, self.accepts(agreement))

    def read(self, values: NDArray[np.float32]) -> HammingText:
        """Score a text by the embeddings (n, d) of its sentences."""
        return HammingText(self, values)

    def read_part(self, values: NDArray[np.float32], included: NDArray[np.bool_]) -> PartialText:
        """Score a text by the embeddings (n, d) of its sentences, of which some count, (n,)."""
        return PartialText(self, values, included)

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

        Each text is compared as it stands and without its mean sentence. Otherwise a key that
        favours the topic would rank before the key that marked the text, although it is no better
        than others given the topic. So there are at most ten keys for each text.
        """
        measure = STATISTICS[statistic](self.rule)
        views = [rows for text in texts for rows in (text, without_topic(text))]
        similarities = [cosines(rows) for rows in views]
        centres = [
            measure.centre(grid_steps(similarity, rule=self.rule)) for similarity in similarities
        ]

        def increments(block: Sequence[WatermarkKey]) -> Iterator[Iterator[NDArray[np.float64]]]:
            planes = np.ascontiguousarray(np.concatenate([planes_of(key) for key in block]).T)
            for rows, similarity in zip(views, similarities, strict=True):
                view = projected(rows, planes, bits=self.rule.bits)
                yield along(view, similarity, statistic=measure, rule=self.rule)

        ranked = rank_keys(keys, centres, increments, block_size=_KEY_BLOCK, wholes=_WHOLES)
        return [
            list(dict.fromkeys(whole + without))
            for whole, without in zip(ranked[::2], ranked[1::2], strict=True)
        ]

    def like(self, key: WatermarkKey) -> HammingMark:
        """The same method under another key of the same configuration and the same references."""
        return HammingMark(key, alternative=self.rule.alternative, references=self.references)

    def accepts(self, agreement: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which are at least T (the paper's equation 3), for generation and detection alike."""
        accepted: NDArray[np.bool_] = agreement >= np.float32(self.rule.threshold)
        return accepted


def planes_of(key: WatermarkKey) -> NDArray[np.float32]:
    """R, the secret hyperplanes of a key: (m, d)."""
    assert isinstance(key.config, HammingConfig)
    m, d = key.config.bits, key.config.encoder.dimension
    return key.secret.normals("planes", m * d).reshape(m, d)
