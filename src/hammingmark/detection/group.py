"""Keys of several methods searched as one: a detector for each kind, corrected for all keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from hammingmark.detection.detector import Detector, require_several
from hammingmark.detection.reader import ReadText
from hammingmark.records import Verdict

_TOGETHER = 64  # texts that each detector reads before the next one does


@dataclass(frozen=True)
class DetectorGroup:
    """Judges texts under keys that no single detector can search.

    Each detector corrects for the keys of all (Bonferroni). So a text that knows none of them is
    called watermarked with probability at most the level.

    Attributes:
        detectors: of one kind of key each; their levels are replaced.
        level: false-positive rate to keep, over all keys together.
    """

    detectors: tuple[Detector, ...]
    level: float

    @property
    def keys(self) -> int:
        """How many keys are searched."""
        return sum(each.keys for each in self.detectors)

    def judge(self, text: str) -> Verdict:
        """Judge one text."""
        return next(iter(self.judge_many([text])))

    def judge_many(self, texts: Iterable[str]) -> Iterator[Verdict]:
        """Judge texts in order: of each the verdict under the key that says most.

        A reader that several detectors have reads a text once for all of them.

        Raises:
            InputError: a text is no string, or one string is given in place of several.
        """
        require_several(texts)
        own = [replace(each, level=self.level, among=self.keys) for each in self.detectors]
        waiting = iter(texts)
        while some := list(islice(waiting, _TOGETHER)):
            read: dict[int, list[ReadText]] = {}
            for each in own:
                if id(each.reader) not in read:
                    batches = each.reader.batches(some)
                    read[id(each.reader)] = [text for batch in batches for text in batch]
            judged = [each.judge_read(read[id(each.reader)]) for each in own]
            for verdicts in zip(*judged, strict=True):
                yield min(verdicts, key=rank)


def rank(verdict: Verdict) -> tuple[int, float, float]:
    """By which the one of several verdicts is the least that holds for all keys together.

    What is found comes first, then the best passage. No watermark was found only where every key
    can tell; of several that cannot, and of several that can, the smallest p-value comes first.
    """
    smallest = 2.0 if verdict.p_value is None else verdict.p_value
    if verdict.watermarked:
        return (0, 0.0, smallest)
    if verdict.passages:
        return (1, min(each.p_value for each in verdict.passages), smallest)
    return (2 if verdict.watermarked is None else 3, 0.0, smallest)
