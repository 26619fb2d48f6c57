"""Text to verdict: split, embed, hash, compare with the reference keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hammingmark.core.calibration import Calibration
from hammingmark.errors import InputError
from hammingmark.pipeline.compare import Comparison, compare
from hammingmark.pipeline.edit_hypotheses import edit_hypotheses
from hammingmark.protocols import Encoder, SentenceWatermark, Splitter
from hammingmark.records import (
    STATISTICS,
    TOPICS,
    EditHypotheses,
    Evidence,
    StatisticName,
    TopicName,
    Verdict,
)
from hammingmark.report import counted

REFERENCES = 4000
_STOP_AFTER = 100
_LEAST_POWER = 0.2  # a text that would show a mark less often than this says nothing by silence
_BATCH_SENTENCES = 4096


@dataclass(frozen=True)
class Detector:
    """Judges texts under one key, or searches several.

    Attributes:
        splitter: must be the one that marking used.
        encoder: likewise.
        watermarks: the method under each key.
        level: false-positive rate to keep, over all keys together.
        statistic: which statistic decides.
        topic: whether the test is conditioned on the text's mean embedding (``given``), which
            reference keys then project as the secret key does, or not (``free``). Either way the
            level holds over keys; given the topic, false-positive rates on texts of one topic also
            differ little between keys.
        edits: whether sentences may have been joined, split or inserted (`core.edit_lattice`).
            Finds more in texts that were edited so, and takes a few times as long.
        references: K, the least number of reference keys. If the level or the number of keys
            demands more, they are drawn by Besag and Clifford's rule.
        calibration: thresholds to decide by instead of the p-value.
        threshold: one fixed threshold to decide by instead of the p-value.
    """

    splitter: Splitter
    encoder: Encoder
    watermarks: Sequence[SentenceWatermark]
    level: float = 0.01
    statistic: StatisticName = "margin"
    topic: TopicName = "given"
    edits: bool = False
    references: int = REFERENCES
    calibration: Calibration | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise InputError(f"The level must lie between 0 and 1, not {self.level}.")
        if self.level < 1e-6:
            raise InputError("A level below 1e-6 would take too many reference keys to show.")
        if self.statistic not in STATISTICS:
            known = ", ".join(STATISTICS)
            raise InputError(f"There is no statistic {self.statistic!r}; there are {known}.")
        if self.topic not in TOPICS:
            raise InputError(f"The topic is given or free, not {self.topic!r}.")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise InputError(f"A threshold is a number, not {self.threshold}.")
        if self.references < 1:
            raise InputError(f"At least one reference key is needed, not {self.references}.")
        if self.edits and self.statistic not in ("margin", "likelihood"):
            raise InputError(
                "Edits need a likelihood ratio: use the statistic margin or likelihood."
            )
        if self.edits and (self.calibration or self.threshold is not None):
            raise InputError("A threshold cannot be combined with edits; use one of the two.")
        if self.calibration and self.threshold is not None:
            raise InputError("Give a calibration or a fixed threshold, not both.")
        if not self.keys:
            raise InputError("At least one key is needed.")

    def __repr__(self) -> str:
        keys = ", ".join(each.key_id for each in self.watermarks[:3])
        return f"Detector({keys}, encoder={self.encoder.name!r}, level={self.level:g})"

    @property
    def keys(self) -> int:
        """How many keys are searched."""
        return len(self.watermarks)

    def judge(self, text: str) -> Verdict:
        """Judge one text."""
        return next(iter(self.judge_many([text])))

    def judge_many(self, texts: Iterable[str]) -> Iterator[Verdict]:
        """Judge texts in order, embedding the sentences of many at a time.

        Raises:
            InputError: a text is no string, or one string is given in place of several.
        """
        if isinstance(texts, (str, bytes)):
            raise InputError("judge_many takes several texts, not one. Write [text], or judge.")
        batch: list[list[str]] = []
        held = 0
        for text in texts:
            if not isinstance(text, str):
                raise InputError(f"A text to judge is a string, not a {type(text).__name__}.")
            batch.append(self.splitter.split(text).carrying)
            held += len(batch[-1])
            if held >= _BATCH_SENTENCES or len(batch) >= _BATCH_SENTENCES // 8:
                yield from self._judge_batch(batch)
                batch, held = [], 0
        yield from self._judge_batch(batch)

    def judge_embeddings(
        self,
        sentences: Sequence[str],
        embeddings: NDArray[np.float32],
        *,
        parts: EditHypotheses | None = None,
    ) -> Verdict:
        """Judge n sentences with embeddings (n, d); with ``parts``, those of all parts, (N, d)."""
        seen, embeddings = embeddings, embeddings[: len(sentences)]
        if len(sentences) < 2:
            return self._too_short(self.watermarks[0].evidence(embeddings), sentences)
        limit = max(self.references, math.ceil(40 * self.keys / self.level))
        comparisons = [
            compare(
                watermark.trial(seen, statistic=self.statistic, topic=self.topic, parts=parts),
                limit=limit,
                level=self.level / self.keys,
                stop_after=_STOP_AFTER if limit > self.references else 0,
            )
            for watermark in self.watermarks
        ]
        best = min(range(self.keys), key=lambda i: comparisons[i].p_value)
        watermark = self.watermarks[best]
        evidence = watermark.evidence(embeddings)
        verdict = self._by_p_value(comparisons[best], evidence, sentences, watermark.key_id)
        value = evidence.mean(self.statistic)
        if self.calibration:
            return _by_threshold(
                verdict, value, self.calibration.threshold(len(evidence.transitions))
            )
        if self.threshold is not None:
            return _by_threshold(verdict, value, self.threshold)
        return verdict

    def _judge_batch(self, batch: list[list[str]]) -> Iterator[Verdict]:
        parts = [edit_hypotheses(sentences) if self.edits else None for sentences in batch]
        texts = [p.texts if p else s for s, p in zip(batch, parts, strict=True)]
        every = dict.fromkeys(text for some in texts for text in some)
        row = {text: i for i, text in enumerate(every)}
        embeddings = self.encoder.encode(list(every))
        for sentences, some, part in zip(batch, texts, parts, strict=True):
            yield self.judge_embeddings(sentences, embeddings[[row[t] for t in some]], parts=part)

    def _too_short(self, evidence: Evidence, sentences: Sequence[str]) -> Verdict:
        held = "one sentence" if sentences else "no sentence"
        return Verdict(
            watermarked=None,
            p_value=None,
            reason=f"The text has {held} that can carry the watermark; at least two are needed.",
            level=self.level,
            statistic=self.statistic,
            evidence=evidence,
            sentences=tuple(sentences),
            key_id=None,
            keys=self.keys,
            edits=self.edits,
        )

    def _by_p_value(
        self, found: Comparison, evidence: Evidence, sentences: Sequence[str], key_id: str
    ) -> Verdict:
        p_value = min(1.0, self.keys * found.p_value)
        attainable = min(1.0, self.keys * found.attainable)
        watermarked: bool | None = p_value <= self.level
        if watermarked:
            reason = f"p = {p_value:.2g} is at most the level {self.level:g}."
        elif attainable > self.level:
            watermarked = None
            held = counted(len(evidence.transitions), "transition")
            reason = (
                f"Too short to tell: with {held} of this similarity no key "
                f"could give p below {attainable:.2g}."
            )
        elif found.power is not None and found.power < _LEAST_POWER:
            watermarked = None
            reason = (
                f"Too short to tell: of marked and edited texts like this one, about "
                f"{found.power:.0%} would be found at the level {self.level:g}."
            )
        else:
            reason = f"p = {p_value:.2g} is above the level {self.level:g}."
        passages = tuple(
            replace(window, p_value=p)
            for window in found.windows
            if (p := min(1.0, self.keys * window.p_value)) <= self.level
        )
        if passages and not watermarked:
            first = passages[0]
            where = f"sentences {first.begin + 1} to {first.end}"
            reason += f" But {where} are watermarked, p = {first.p_value:.2g}."
        return Verdict(
            watermarked=watermarked,
            p_value=p_value,
            reason=reason,
            level=self.level,
            statistic=self.statistic,
            evidence=evidence,
            sentences=tuple(sentences),
            key_id=key_id,
            keys=self.keys,
            edits=self.edits,
            references=found.references,
            attainable=attainable,
            power=found.power,
            tail_estimate=None
            if found.tail_estimate is None
            else min(1.0, self.keys * found.tail_estimate),
            passages=passages,
        )


def _by_threshold(verdict: Verdict, value: float, threshold: float) -> Verdict:
    above = value > threshold + 1e-9  # a tie is no alarm, also one blurred by rounding
    relation = "above" if above else "not above"
    return replace(
        verdict,
        watermarked=above,
        threshold=threshold,
        reason=f"{verdict.statistic} = {value:.3f} is {relation} the threshold {threshold:.3f}.",
    )
