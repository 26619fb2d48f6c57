"""HammingMark (after Sun et al. 2026): the next sentence agrees with the one before, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hammingmark.core import statistics
from hammingmark.core.hashing import project
from hammingmark.core.references import coordinates, split_topic
from hammingmark.core.statistics import Alternative, Pairs, Rule, Scoring
from hammingmark.keys import ReferenceKeys, WatermarkKey
from hammingmark.records import STATISTICS, Choice, Evidence, StatisticName, TopicName, Transition

_CHUNK = 256  # sentences at a time, so that memory does not grow with the text


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
            key.bits, key.threshold, alternative or Alternative(), key.softness, key.fresh
        )
        self._planes = np.ascontiguousarray(key.planes().T)
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
        scores = self._scores(self._pairs(rows))[::2]
        valid = self._accepts(scores)
        index = int(np.argmax(valid if valid.any() else scores))
        return Choice(index, bool(valid[index]), tuple(float(score) for score in scores))

    def evidence(self, embeddings: NDArray[np.float32]) -> Evidence:
        """Matches, votes and likelihoods of a text's embeddings (n, d)."""
        similarity = statistics.cosines(embeddings)
        if not len(similarity):
            return Evidence(self.key.bits, (), None, None, None, likelihood=0.0, margin=0.0)
        pairs = self._pairs(embeddings)
        matches = pairs.matches()[:, 0]
        scores = self._scores(pairs)
        valid = self._accepts(scores)
        expected = self.key.bits * statistics.natural_match(similarity, rule=self.rule)
        own = {name: self.trial(embeddings, statistic=name).own for name in STATISTICS}
        return Evidence(
            bits=self.key.bits,
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
    ) -> HammingTrial:
        """One text, ready to be compared under this key and under reference keys."""
        return HammingTrial(
            embeddings,
            self._planes,
            self._references,
            statistic=statistic,
            topic=topic,
            rule=self.rule,
        )

    def _pairs(self, embeddings: NDArray[np.float32]) -> Pairs:
        """Neighbours among rows (n, d) under the key alone."""
        projections = project(embeddings, self._planes, bits=self.key.bits)
        return Pairs(projections, statistics.cosines(embeddings), rule=self.rule)

    def _scores(self, pairs: Pairs) -> NDArray[np.float32]:
        """What the rule looks at, for generation and detection alike: (n - 1,)."""
        return pairs.agreement(self.key.softness)[:, 0]

    def _accepts(self, scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """The paper's equation 3: at least T."""
        enough: NDArray[np.bool_] = scores >= np.float32(self.key.threshold)
        return enough


class HammingTrial:
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
        self._scoring = Scoring(statistics.cosines(embeddings), statistic=statistic, rule=rule)
        self.is_ratio = statistic in ("likelihood", "margin")
        self.best = self._scoring.best
        self.centre = self._scoring.centre
        self.own = np.concatenate([part[:, 0] for part in self._increments(embeddings, planes)])

    def reference_blocks(self) -> Iterator[Iterator[NDArray[np.float64]]]:
        """Block after block of reference keys, each chunk by chunk along the text: (c, k)."""
        shared: NDArray[np.float32] | None = None
        free = self._embeddings
        if self._topic == "given":
            topic = split_topic(self._embeddings)
            shared = topic.along[:, None] * (topic.direction @ self._planes)
            free = topic.rest
        reduced = coordinates(free)
        block = 0
        while True:
            planes = self._references.planes(block, reduced.shape[1])
            yield self._increments(reduced, planes, shared)
            block += 1

    def _increments(
        self,
        embeddings: NDArray[np.float32],
        planes: NDArray[np.float32],
        shared: NDArray[np.float32] | None = None,
    ) -> Iterator[NDArray[np.float64]]:
        """Chunk by chunk; ``shared`` (n, m) is what every key has in common, if anything."""
        for first in range(0, len(embeddings) - 1, _CHUNK):
            part = slice(first, first + _CHUNK + 1)
            projections = project(embeddings[part], planes, bits=self._bits)
            if shared is not None:
                projections += shared[part, None, :]
            yield self._scoring.increments(projections, first=first)
