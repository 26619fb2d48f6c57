"""Text to verdict: read, score, compare with the null distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from hammingmark.detection.reader import ReadText, TextReader
from hammingmark.detection.search import KeySearch
from hammingmark.errors import InputError
from hammingmark.protocols import (
    ScoredText,
    SignificanceTest,
    Watermark,
)
from hammingmark.records import TOPICS, Evidence, Passage, TopicName, Verdict
from hammingmark.report import counted
from hammingmark.stats.calibration import Calibration, counted_increments
from hammingmark.stats.compare import Comparison, compare

REFERENCES = 4000
SMALLEST_LEVEL = 1e-6
_DEPTH = 4  # reference keys for each that a p-value at the level needs at least
_STOP_AFTER = 100  # reference keys that reach a score before its test stops
_STOP_SOON_AFTER = 20  # the same where many more are drawn because many keys are searched
_MOST_DRAWS = 40_000_000  # some minutes
_LEAST_POWER = 0.2  # a text that would show a mark less often than this says nothing by silence


def _go_on() -> None:
    """Nobody waits."""


@dataclass(frozen=True)
class Detector:
    """Judges texts under one key, or searches several.

    Attributes:
        reader: makes of a text what the method scores.
        search: the keys.
        level: false-positive rate to keep, over all keys together.
        statistic: which of the method's statistics decides; by default its first.
        topic: whether the test is conditioned on the text's mean embedding (``given``), which
            reference keys then project as the secret key does, or not (``free``). Either way the
            level holds over keys; given the topic, false-positive rates on texts of one topic also
            differ little between keys. By default given where the method can.
        references: K, the least number of reference keys. If the level or the number of keys
            demands more, more are drawn. By Besag and Clifford's rule a test stops as soon as
            enough of them reach its score.
        calibration: thresholds to decide by instead of the p-value.
        threshold: one fixed threshold to decide by instead of the p-value.
        among: keys that are searched in all, where others search the rest; the p-value is
            corrected for all of them. By default its own alone.
        pause: called between slices of long work; what it raises ends the work.
    """

    reader: TextReader
    search: KeySearch
    level: float = 0.01
    statistic: str = ""
    topic: TopicName | None = None
    references: int = REFERENCES
    calibration: Calibration | None = None
    threshold: float | None = None
    among: int = 0
    pause: Callable[[], None] = _go_on

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise InputError(f"The level must lie between 0 and 1, not {self.level}.")
        if self.level < SMALLEST_LEVEL:
            raise InputError("A level below 1e-6 would take too many reference keys to show.")
        known = self.search.first.statistics
        if not self.statistic:
            object.__setattr__(self, "statistic", known[0])
        if self.statistic not in known:
            raise InputError(
                f"There is no statistic {self.statistic!r}; there are {', '.join(known)}."
            )
        if self.topic not in (None, *TOPICS):
            raise InputError(f"The topic is given or free, not {self.topic!r}.")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise InputError(f"A threshold is a number, not {self.threshold}.")
        if self.references < 1:
            raise InputError(f"At least one reference key is needed, not {self.references}.")
        if self.reader.edits and self.search.first.capabilities.read_edited is None:
            raise InputError(f"The method {self.search.first.name!r} does not allow for edits.")
        if self.reader.edits and (self.calibration or self.threshold is not None):
            raise InputError("A threshold cannot be combined with edits; use one of the two.")
        if self.threshold is not None and self.keys > 1:
            raise InputError(
                "A fixed threshold is not corrected for the number of keys; give one key with it."
            )
        if self.calibration and self.threshold is not None:
            raise InputError("Give a calibration or a fixed threshold, not both.")

    def __repr__(self) -> str:
        return f"Detector({self.search.first.key.id}, keys={self.keys}, level={self.level:g})"

    @property
    def keys(self) -> int:
        """How many keys it searches."""
        return len(self.search)

    @property
    def searched(self) -> int:
        """How many keys are searched in all: what p-values are corrected for."""
        return max(self.among, self.keys)

    def judge(self, text: str) -> Verdict:
        """Judge one text."""
        return next(iter(self.judge_many([text])))

    def judge_many(self, texts: Iterable[str]) -> Iterator[Verdict]:
        """Judge texts in order, reading many at a time.

        Raises:
            InputError: a text is no string, or one string is given in place of several.
        """
        require_several(texts)
        for batch in self.reader.batches(texts):
            yield from self.judge_read(batch)

    def judge_read(self, texts: list[ReadText]) -> Iterator[Verdict]:
        """Judge texts that have been read."""
        candidates = self.search.candidates(texts, statistic=self.statistic)
        for text, watermarks in zip(texts, candidates, strict=True):
            yield self._judge(text, watermarks)

    def _judge(self, text: ReadText, watermarks: list[Watermark]) -> Verdict:
        scored = [self._score(watermark, text) for watermark in watermarks]
        if not scored[0].evidence.scores:
            return self._too_short(scored[0].evidence, text)
        tests = [self._test(each) for each in scored]
        limit = self._draws_of(tests)
        comparisons = [
            compare(
                test,
                limit=limit,
                level=self.level / self.searched,
                stop_after=_STOP_AFTER if limit == self.references else _STOP_SOON_AFTER,
                pause=self.pause,
            )
            for test in tests
        ]
        found = sorted(
            (
                (passage, i)
                for i, watermark in enumerate(watermarks)
                for passage in self._passages(watermark, comparisons[i], scored[i].evidence, text)
            ),
            key=lambda each: each[0].p_value,
        )
        best = min(range(len(scored)), key=lambda i: comparisons[i].p_value)
        if found and self.searched * comparisons[best].p_value > self.level:
            best = found[0][1]
        passages = tuple(passage for passage, _ in found)
        evidence, key = scored[best].evidence, watermarks[best].key
        if evidence.unit == "token" and self.statistic != watermarks[best].statistics[0]:
            evidence = evidence.counting(tests[best].best != 0.0)
        verdict = replace(
            self._by_p_value(comparisons[best], evidence, text, passages),
            key_id=key.id,
            label=key.label,
            method=key.config.method,
            null=tests[best].null.description,
        )
        mark = watermarks[best]
        if mark.capabilities.keyless:
            told = " It rests on no secret: anybody can compute it."
            verdict = replace(verdict, reason=verdict.reason + told)
        if self.calibration is None and self.threshold is None:
            return verdict
        increments = counted_increments(tests[best])
        value = float(increments.mean()) if len(increments) else 0.0
        if self.calibration:
            return _by_threshold(verdict, value, self.calibration.threshold(len(increments)))
        assert self.threshold is not None
        return _by_threshold(verdict, value, self.threshold)

    def _draws_of(self, tests: list[SignificanceTest]) -> int:
        """How many draws of the null distribution are looked at, at most.

        Raises:
            InputError: that is more than anybody waits for.
        """
        limit = max(self.references, math.ceil(_DEPTH * self.searched / self.level))
        if limit > _MOST_DRAWS and not all(each.null.computed for each in tests):
            raise InputError(
                f"To find one of {self.searched:,} keys at the level {self.level:g} takes up to "
                f"{limit:,} reference keys. Search fewer keys, or at a higher level."
            )
        return limit

    def _score(self, watermark: Watermark, text: ReadText) -> ScoredText:
        capabilities = watermark.capabilities
        if text.samples is not None and capabilities.samples is not None:
            return capabilities.samples.read_sampled(text.values, text.samples)
        if text.edits is None:
            return watermark.read(text.values)
        assert capabilities.read_edited is not None
        return capabilities.read_edited(text.values, text.edits)

    def _test(self, scored: ScoredText) -> SignificanceTest:
        if self.topic != "free" and scored.test_given_topic is not None:
            return scored.test_given_topic(self.statistic)
        if self.topic == "given":
            name = self.search.first.name
            raise InputError(f"The method {name!r} cannot be conditioned on the topic.")
        return scored.test(self.statistic)

    def _too_short(self, evidence: Evidence, text: ReadText) -> Verdict:
        held = f"one {self.reader.piece}" if text.pieces else f"no {self.reader.piece}"
        wanted = "; at least two are needed" if text.pieces else ""
        reason = f"The text has {held} that can carry the watermark{wanted}."
        if len(text.pieces) > 1:
            held = counted(len(text.pieces), self.reader.piece)
            reason = f"The text has {held}, too few: each is judged by those before it."
        if text.pieces and self.reader.piece == "token":
            held = counted(len(text.pieces), "token")
            reason = (
                f"The text has {held}, of which none is scored: a token is judged by the tokens or "
                "words before it, and there are too few."
            )
        return Verdict(
            watermarked=None,
            p_value=None,
            reason=reason,
            level=self.level,
            statistic=self.statistic,
            evidence=evidence,
            pieces=text.pieces,
            key_id=None,
            keys=self.searched,
            edits=self.reader.edits,
        )

    def _passages(
        self, watermark: Watermark, found: Comparison, evidence: Evidence, text: ReadText
    ) -> Iterator[Passage]:
        """The windows that carry the mark of one key at the level.

        A window of increments covers the pieces that they score and those before, on which they
        rest: two sentences for one transition.
        """
        before = len(text.pieces) - len(evidence.scores)
        rests_on = before if evidence.context_units is None else evidence.context_units
        key = watermark.key
        for window in found.windows:
            p_value = min(1.0, self.searched * window.p_value)
            if p_value <= self.level:
                begin, end = max(0, window.begin + before - rests_on), window.end + before
                yield Passage(begin, end, p_value, key_id=key.id, label=key.label)

    def _by_p_value(
        self,
        found: Comparison,
        evidence: Evidence,
        text: ReadText,
        passages: tuple[Passage, ...],
    ) -> Verdict:
        p_value = min(1.0, self.searched * found.p_value)
        attainable = min(1.0, self.searched * found.attainable)
        watermarked: bool | None = p_value <= self.level
        if watermarked:
            reason = f"p = {p_value:.2g} is at most the level {self.level:g}."
        elif attainable > self.level:
            watermarked = None
            reason = f"{_too_little(evidence)} no mark gives p below {attainable:.2g}."
        elif found.power is not None and found.power < _LEAST_POWER:
            watermarked = None
            reason = (
                f"Too short to tell: of marked texts like this one, about {found.power:.0%} would "
                f"be found at the level {self.level:g}."
            )
        else:
            reason = f"p = {p_value:.2g} is above the level {self.level:g}."
        if passages and not watermarked:
            first = passages[0]
            where = f"{self.reader.piece}s {first.begin + 1} to {first.end}"
            reason += f" But {where} are watermarked, p = {first.p_value:.2g}."
        return Verdict(
            watermarked=watermarked,
            p_value=p_value,
            reason=reason,
            level=self.level,
            statistic=self.statistic,
            evidence=evidence,
            pieces=text.pieces,
            key_id=None,
            keys=self.searched,
            edits=self.reader.edits,
            references=found.references,
            attainable=attainable,
            power=found.power,
            tail_estimate=None
            if found.tail_estimate is None
            else min(1.0, self.searched * found.tail_estimate),
            passages=passages,
        )


def require_several(texts: Iterable[str]) -> None:
    """Refuse one text in the place of several.

    Raises:
        InputError: it is one.
    """
    if isinstance(texts, (str, bytes)):
        raise InputError("judge_many takes several texts, not one. Write [text], or judge.")


def _too_little(evidence: Evidence) -> str:
    """Why no key could reach the level: the beginning of a sentence."""
    held = counted(len(evidence.scores) - evidence.repeated, evidence.unit)
    if evidence.unit != "token":
        return f"Too short to tell: with {held} of this similarity"
    again = f" ({evidence.repeated:,} more are repeated, not counted)" if evidence.repeated else ""
    return f"Too little to tell: with {held}{again}"


def _by_threshold(verdict: Verdict, value: float, threshold: float) -> Verdict:
    above = value > threshold + 1e-9  # a tie is no alarm, also one blurred by rounding
    relation = "above" if above else "not above"
    return replace(
        verdict,
        watermarked=above,
        threshold=threshold,
        reason=f"{verdict.statistic} = {value:.3f} is {relation} the threshold {threshold:.3f}.",
    )
