"""HammingMark (after Sun et al. 2026): the next sentence agrees with the one before, bit by bit."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from hammingmark.core import statistics
from hammingmark.core.hashing import project_in_order
from hammingmark.core.statistics import Alternative, Pairs, Rule, Scoring
from hammingmark.keys import ReferenceKeys, WatermarkKey
from hammingmark.records import (
    STATISTICS,
    Choice,
    EditHypotheses,
    Evidence,
    StatisticName,
    TopicName,
    Transition,
)
from hammingmark.watermarks.sentence.randomization_test import EditedHammingTest, HammingTest


class HammingMark:
    """The method under one key.

    Args:
        key: the secret.
        alternative: what marked text is expected to look like when it is judged.
    """

    name = "hamming"
    pool = 1

    def __init__(self, key: WatermarkKey, *, alternative: Alternative | None = None) -> None:
        self.key = key
        self.rule = Rule(
            key.bits, key.threshold, alternative or Alternative(), key.softness, key.residual
        )
        self._planes = key.planes()
        self._references = ReferenceKeys(key.secret, bits=key.bits)

    @property
    def key_id(self) -> str:
        """The public name of the key."""
        return self.key.id

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate that agrees enough with the previous sentence, otherwise the best.

        Args:
            previous: embedding (d,) of the sentence before, or None if there is none.
            candidates: (c, d), in drawing order, at least one.
        """
        if previous is None:
            return Choice(index=0, accepted=True, scores=(float(self.key.bits),) * len(candidates))
        # Each candidate beside the previous sentence: pairs, as detection would see them.
        rows = np.empty((2 * len(candidates), candidates.shape[1]), np.float32)
        rows[::2], rows[1::2] = previous, candidates
        projections = project_in_order(rows, self._planes)
        scores = self._scores(Pairs(projections, statistics.cosines(rows), rule=self.rule))[::2]
        valid = self._accepts(scores)
        index = int(np.argmax(valid if valid.any() else scores))
        return Choice(index, bool(valid[index]), tuple(float(score) for score in scores))

    def evidence(self, embeddings: NDArray[np.float32]) -> Evidence:
        """Matches, votes and likelihoods of a text's embeddings (n, d)."""
        similarity = statistics.cosines(embeddings)
        if not len(similarity):
            return Evidence(
                self.key.bits, self.key.threshold, (), None, None, None, likelihood=0.0, margin=0.0
            )
        projections = project_in_order(embeddings, self._planes)
        pairs = Pairs(projections, similarity, rule=self.rule)
        matches = pairs.matches()[:, 0]
        scores = self._scores(pairs)
        valid = self._accepts(scores)
        expected = self.key.bits * statistics.natural_match(similarity, rule=self.rule)
        own = {
            name: Scoring(similarity, statistic=name, rule=self.rule).increments(projections)
            for name in STATISTICS
        }
        return Evidence(
            bits=self.key.bits,
            threshold=self.key.threshold,
            transitions=tuple(
                Transition(int(match), float(cosine), bool(is_valid), float(mean), float(score))
                for match, cosine, is_valid, mean, score in zip(
                    matches, similarity, valid, expected, scores, strict=True
                )
            ),
            edge_vote=float(own["edge_vote"].mean()),
            global_bits=float(own["global_bits"].mean()),
            soft=float(own["soft"].mean()),
            likelihood=float(own["likelihood"].sum()),
            margin=float(own["margin"].sum()),
        )

    def trial(
        self,
        embeddings: NDArray[np.float32],
        *,
        statistic: StatisticName,
        topic: TopicName = "given",
        parts: EditHypotheses | None = None,
    ) -> HammingTest:
        """One text, ready to be compared under this key and under reference keys."""
        text = HammingTest if parts is None else partial(EditedHammingTest, parts=parts)
        return text(
            embeddings,
            self._planes,
            self._references,
            statistic=statistic,
            topic=topic,
            rule=self.rule,
        )

    def _scores(self, pairs: Pairs) -> NDArray[np.float32]:
        """What the rule looks at, for generation and detection alike: (n - 1,)."""
        return pairs.agreement(self.key.softness)[:, 0]

    def _accepts(self, scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """The paper's equation 3: at least T."""
        enough: NDArray[np.bool_] = scores >= np.float32(self.key.threshold)
        return enough
