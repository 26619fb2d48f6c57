"""Deciding by a threshold of a statistic instead of its p-value: fitting one, applying one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hammingmark.detection.reader import TextReader
from hammingmark.errors import CalibrationError
from hammingmark.protocols import SignificanceTest, Watermark
from hammingmark.records import Verdict
from hammingmark.stats.calibration import Calibration, counted_increments

_TIE = 1e-9  # a tie does not exceed the threshold, even if rounding blurs it


def fit_calibration(
    texts: Sequence[str],
    *,
    reader: TextReader,
    watermark: Watermark,
    statistic: str,
    level: float,
    provenance: Mapping[str, Any],
) -> Calibration:
    """Fit per-length thresholds of a statistic on texts known to be unmarked.

    Raises:
        CalibrationError: too few texts for the level.
    """
    increments = []
    for batch in reader.batches(texts):
        for text in batch:
            scored = watermark.read(text.values)
            if scored.evidence.scores:
                increments.append(counted_increments(scored.test(statistic)))
    required = math.ceil(1.0 / level) - 1 if 0.0 < level < 1.0 else 0  # `fit` checks the level
    if len(increments) < required:
        raise CalibrationError(
            f"A threshold at level {level:g} needs at least {required:,} unmarked texts that are "
            f"long enough to score; only {len(increments):,} of {len(texts):,} are. "
            "Add texts or raise the level."
        )
    return Calibration(
        statistic=statistic,
        level=level,
        key_id=watermark.key.id,
        fingerprint=reader.fingerprint,
        provenance=provenance,
    ).fit(increments)


def decide_by_threshold(
    verdict: Verdict, test: SignificanceTest, threshold: Calibration | float
) -> Verdict:
    """A verdict decided by a calibration or a fixed threshold.

    A threshold is of the whole text: nothing is claimed of passages, which would be a second test,
    nor of one sentence.

    Args:
        verdict: the verdict by the p-value.
        test: the test of the text under its key.
        threshold: compared with the mean of the increments that count.
    """
    increments = counted_increments(test)
    value = float(increments.mean()) if len(increments) else 0.0
    if isinstance(threshold, Calibration):
        threshold = threshold.threshold(len(increments))
    is_above = value > threshold + _TIE
    relation = "above" if is_above else "not above"
    name, evidence = verdict.statistic, verdict.evidence
    if name not in evidence.means:  # which is a sum over the units
        name = f"mean {name} per {evidence.unit}"
    reason = f"{name} = {value:.3f} is {relation} the threshold {threshold:.3f}."
    is_one_sentence = len(verdict.pieces) == 1 and evidence.unit != "token"
    return replace(
        verdict,
        watermarked=None if is_one_sentence else is_above,
        passages=(),
        likelihood_ratio=None,
        threshold=threshold,
        reason=f"One sentence is too little for a verdict. {reason}" if is_one_sentence else reason,
    )
