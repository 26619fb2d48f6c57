"""Detectors that stop between slices of their work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hammingmark.pipeline.detect import Detector
from hammingmark.pipeline.detector_group import DetectorGroup
from hammingmark.pipeline.reading import ContextReader, SentenceReader
from hammingmark.protocols import Encoder, FloatArray

_SLICE = 32  # sentences; some tenths of a second, and nearly all that judging a long text takes


class PausingEncoder:
    """Embeds as another encoder does, slice by slice.

    Args:
        encoder: the one that does the work.
        pause: called before each slice.
    """

    def __init__(self, encoder: Encoder, pause: Callable[[], None]) -> None:
        self.name: str = encoder.name
        self.dimension: int = encoder.dimension
        self.fingerprint: str = encoder.fingerprint
        self._encoder = encoder
        self._pause = pause

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Embed n sentences: (n, d)."""
        rows = []
        for start in range(0, len(sentences), _SLICE):
            self._pause()
            rows.append(self._encoder.encode(sentences[start : start + _SLICE]))
        return np.concatenate(rows) if rows else self._encoder.encode([])


def with_pauses(
    detector: Detector | DetectorGroup, pause: Callable[[], None]
) -> Detector | DetectorGroup:
    """A detector that gives the same verdicts, and calls ``pause`` while it embeds."""
    if isinstance(detector, DetectorGroup):
        return replace(
            detector, detectors=tuple(_paused(each, pause) for each in detector.detectors)
        )
    return _paused(detector, pause)


def _paused(detector: Detector, pause: Callable[[], None]) -> Detector:
    reader = detector.reader
    if not isinstance(reader, (SentenceReader, ContextReader)):
        return detector
    return replace(detector, reader=replace(reader, encoder=PausingEncoder(reader.encoder, pause)))
