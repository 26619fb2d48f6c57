"""Unmarked texts to a fitted calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hammingmark.core.calibration import Calibration
from hammingmark.protocols import Encoder, SentenceWatermark, Splitter
from hammingmark.records import StatisticName


def fit_calibration(
    texts: Sequence[str],
    *,
    splitter: Splitter,
    encoder: Encoder,
    watermark: SentenceWatermark,
    statistic: StatisticName,
    level: float,
    provenance: Mapping[str, Any],
) -> Calibration:
    """Per-length thresholds of a statistic on texts known to be unmarked.

    Raises:
        CalibrationError: too few texts for the level.
    """
    documents = [splitter.split(text).carrying for text in texts]
    embeddings = encoder.encode([sentence for each in documents for sentence in each])
    increments = []
    begin = 0
    for each in documents:
        part = embeddings[begin : begin + len(each)]
        begin += len(each)
        if len(part) >= 2:
            increments.append(watermark.trial(part, statistic=statistic).own)
    return Calibration(
        statistic=statistic,
        level=level,
        key_id=watermark.key_id,
        fingerprint=encoder.fingerprint,
        provenance=provenance,
    ).fit(increments)
