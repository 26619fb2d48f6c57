"""Unmarked texts to a fitted calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hammingmark.detection.reader import TextReader
from hammingmark.errors import CalibrationError
from hammingmark.protocols import Watermark
from hammingmark.stats.calibration import Calibration, counted_increments


def fit_calibration(
    texts: Sequence[str],
    *,
    reader: TextReader,
    watermark: Watermark,
    statistic: str,
    level: float,
    provenance: Mapping[str, Any],
) -> Calibration:
    """Per-length thresholds of a statistic on texts known to be unmarked.

    Raises:
        CalibrationError: too few texts for the level.
    """
    increments = []
    for batch in reader.batches(texts):
        for read in batch:
            scored = watermark.read(read.values)
            if scored.evidence.scores:
                increments.append(counted_increments(scored.test(statistic)))
    needed = math.ceil(1.0 / level) - 1 if 0.0 < level < 1.0 else 0  # `fit` refuses other levels
    if len(increments) < needed:
        raise CalibrationError(
            f"A threshold at {level:g} needs at least {needed:,} unmarked texts that are long "
            f"enough to be scored; these are too few: {len(increments):,} of {len(texts):,} are. "
            "Add texts or raise the level."
        )
    return Calibration(
        statistic=statistic,
        level=level,
        key_id=watermark.key.id,
        fingerprint=reader.fingerprint,
        provenance=provenance,
    ).fit(increments)
