"""Detectors that stop between slices of their work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import overload

from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.detection.reader import ContextReader, SentenceReader, TextReader
from hammingmark.detection.search import RankedKeys
from hammingmark.encoders.wrappers import SlicedEncoder
from hammingmark.keys.key import WatermarkKey

_SLICE = 32  # sentences; some tenths of a second


class CheckpointedKeys(Sequence[WatermarkKey]):
    """Keys through which a search goes, a few at a time.

    Args:
        keys: as they are.
        pause: called before some are taken.
    """

    def __init__(self, keys: Sequence[WatermarkKey], pause: Callable[[], None]) -> None:
        self._keys = keys
        self._pause = pause

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, place: int) -> WatermarkKey: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[WatermarkKey]: ...

    def __getitem__(self, place: int | slice) -> WatermarkKey | Sequence[WatermarkKey]:
        self._pause()
        return self._keys[place]


def with_checkpoints(
    detector: Detector | DetectorGroup, pause: Callable[[], None]
) -> Detector | DetectorGroup:
    """A detector that gives the same verdicts, and calls ``pause`` while it works on them."""
    if not isinstance(detector, DetectorGroup):
        return _paused(detector, pause, {})
    readers: dict[int, TextReader] = {}
    paused = tuple(_paused(each, pause, readers) for each in detector.detectors)
    return replace(detector, detectors=paused)


def _paused(
    detector: Detector, pause: Callable[[], None], readers: dict[int, TextReader]
) -> Detector:
    """One detector; readers that several share stay shared, by the id of what they were."""
    reader, search = detector.reader, detector.search
    if isinstance(reader, (SentenceReader, ContextReader)):
        encoder = SlicedEncoder(reader.encoder, size=_SLICE, before=pause)
        reader = readers.setdefault(id(reader), replace(reader, encoder=encoder))
    if isinstance(search, RankedKeys):
        search = replace(search, keys=CheckpointedKeys(search.keys, pause))
    return replace(detector, reader=reader, search=search, pause=pause)
