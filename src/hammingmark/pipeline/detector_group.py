"""Keys of several methods searched as one: a detector for each kind, corrected for all keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from hammingmark.pipeline.detect import SMALLEST_LEVEL, Detector
from hammingmark.records import Verdict

_TOGETHER = 64  # texts that each detector reads before the next one does


@dataclass(frozen=True)
class DetectorGroup:
    """Judges texts under keys that no single detector can search.

    Each detector tests at its share of the level, by the number of its keys. So a text that knows
    none of the keys is called watermarked with probability at most the level, and the p-value is
    that of the best key times the number of all keys (Bonferroni).

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
        """Judge texts in order: of each the verdict under the key that says most."""
        waiting = iter(texts)
        while some := list(islice(waiting, _TOGETHER)):
            found = [self._verdicts(each, some) for each in self.detectors]
            for verdicts in zip(*found, strict=True):
                yield min(verdicts, key=rank)

    def _verdicts(self, detector: Detector, texts: list[str]) -> list[Verdict]:
        share = detector.keys / self.keys
        own = replace(detector, level=max(SMALLEST_LEVEL, self.level * share))
        return [
            corrected(verdict, by=1.0 / share, level=self.level, keys=self.keys)
            for verdict in own.judge_many(texts)
        ]


def corrected(verdict: Verdict, *, by: float, level: float, keys: int) -> Verdict:
    """A verdict on some of many keys as one on all of them.

    Args:
        verdict: at a level that is at least its share.
        by: all keys over those.
        level: for all keys together.
        keys: all of them.
    """
    if verdict.p_value is None or by == 1.0:
        return replace(verdict, level=level, keys=keys)
    p_value = min(1.0, verdict.p_value * by)
    every = [replace(each, p_value=min(1.0, each.p_value * by)) for each in verdict.passages]
    passages = tuple(each for each in every if each.p_value <= level)
    watermarked = None if verdict.watermarked is None else p_value <= level
    reason = verdict.reason
    if watermarked is not None:
        reason = (
            f"p = {p_value:.2g} is {'at most' if watermarked else 'above'} the level {level:g}."
        )
    if watermarked is False and passages:
        piece = "token" if verdict.evidence.unit == "token" else "sentence"
        where = f"{piece}s {passages[0].begin + 1} to {passages[0].end}"
        reason += f" But {where} are watermarked, p = {passages[0].p_value:.2g}."
    return replace(
        verdict,
        watermarked=watermarked,
        p_value=p_value,
        level=level,
        keys=keys,
        reason=reason,
        passages=passages,
        attainable=min(1.0, verdict.attainable * by),
    )


def rank(verdict: Verdict) -> tuple[bool, float, float]:
    """By which the best of several verdicts is the least.

    What is found comes first, then the best passage, then the smallest p-value.
    """
    smallest = 2.0 if verdict.p_value is None else verdict.p_value
    if verdict.watermarked:
        return (False, 0.0, smallest)
    return (True, min((each.p_value for each in verdict.passages), default=2.0), smallest)
