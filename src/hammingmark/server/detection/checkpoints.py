"""Detectors with checkpoints between slices of their work."""

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

_SLICE = 32  # sentences; a few tenths of a second


class CheckpointedKeys(Sequence[WatermarkKey]):
    """Keys with a checkpoint before a search takes each of them.

    Args:
        keys: the keys.
        checkpoint: called before each key is taken, also from a slice.
    """

    def __init__(self, keys: Sequence[WatermarkKey], checkpoint: Callable[[], None]) -> None:
        self._keys = keys
        self._checkpoint = checkpoint

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, index: int) -> WatermarkKey: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[WatermarkKey]: ...

    def __getitem__(self, index: int | slice) -> WatermarkKey | Sequence[WatermarkKey]:
        if isinstance(index, slice):
            return CheckpointedKeys(self._keys[index], self._checkpoint)
        self._checkpoint()
        return self._keys[index]


def with_checkpoints(
    detector: Detector | DetectorGroup, checkpoint: Callable[[], None]
) -> Detector | DetectorGroup:
    """A detector with the same verdicts that calls ``checkpoint`` between slices of its work."""
    if not isinstance(detector, DetectorGroup):
        return _checkpointed(detector, checkpoint, {})
    readers: dict[int, TextReader] = {}
    detectors = tuple(_checkpointed(part, checkpoint, readers) for part in detector.detectors)
    return replace(detector, detectors=detectors)


def _checkpointed(
    detector: Detector, checkpoint: Callable[[], None], readers: dict[int, TextReader]
) -> Detector:
    """One detector; ``readers`` keeps shared readers shared, by the id of the original."""
    reader, search = detector.reader, detector.search
    if isinstance(reader, (SentenceReader, ContextReader)):
        encoder = SlicedEncoder(reader.encoder, size=_SLICE, before=checkpoint)
        reader = readers.setdefault(id(reader), replace(reader, encoder=encoder))
    if isinstance(search, RankedKeys):
        search = replace(search, keys=CheckpointedKeys(search.keys, checkpoint))
    return replace(detector, reader=reader, search=search, pause=checkpoint)
