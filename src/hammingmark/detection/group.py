"""Searching keys of several methods: one detector per kind, with one correction for all keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from hammingmark.detection.detector import Detector, require_several
from hammingmark.detection.reader import ReadText
from hammingmark.records import ExcludedKey, Verdict

_BATCH_TEXTS = 64  # texts that one detector reads before the next one does


@dataclass(frozen=True)
class DetectorGroup:
    """Judges texts under keys that no single detector can search.

    Each detector corrects for the keys of all (Bonferroni). So a text that is independent of them
    is called watermarked with probability at most the level, if all their tests are exact.

    Attributes:
        detectors: each searches keys of one kind; their levels are replaced.
        level: false-positive rate to keep, over all keys together.
        excluded: keys that were named but are not searched.
    """

    detectors: tuple[Detector, ...]
    level: float
    excluded: tuple[ExcludedKey, ...] = ()

    @property
    def keys(self) -> int:
        """The number of keys searched."""
        return sum(detector.keys for detector in self.detectors)

    def judge(self, text: str) -> Verdict:
        """Judge one text."""
        return next(iter(self.judge_many([text])))

    def judge_many(self, texts: Iterable[str]) -> Iterator[Verdict]:
        """Judge texts in order; yields the most significant verdict on each.

        A reader shared by several detectors reads a text once for all of them.

        Raises:
            InputError: a text is not a string, or ``texts`` is a single string.
        """
        require_several(texts)
        detectors = [
            replace(detector, level=self.level, among=self.keys, excluded=self.excluded)
            for detector in self.detectors
        ]
        iterator = iter(texts)
        while batch := list(islice(iterator, _BATCH_TEXTS)):
            read_texts: dict[int, list[ReadText]] = {}  # by reader
            for detector in detectors:
                reader = detector.reader
                if id(reader) not in read_texts:
                    read_texts[id(reader)] = [
                        text for part in reader.batches(batch) for text in part
                    ]
            columns = [
                detector.judge_read(read_texts[id(detector.reader)]) for detector in detectors
            ]
            for verdicts in zip(*columns, strict=True):
                yield min(verdicts, key=rank)


def rank(verdict: Verdict) -> tuple[int, float, float]:
    """Sort key that puts the most significant verdict first.

    Watermarked texts come first, then watermarked passages, then weak evidence, then verdicts that
    cannot tell: no watermark was found only if every key can tell. Among equals, the smallest
    p-value comes first.
    """
    smallest = 2.0 if verdict.p_value is None else verdict.p_value
    if verdict.watermarked:
        return (0, 0.0, smallest)
    if verdict.passages:
        return (1, min(passage.p_value for passage in verdict.passages), smallest)
    if verdict.likelihood_ratio is not None:
        return (2, 0.0, smallest)
    return (3 if verdict.watermarked is None else 4, 0.0, smallest)
