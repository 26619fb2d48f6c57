"""From texts to verdicts: read, score, compare with the null distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from hammingmark.detection.reader import ReadText, TextReader
from hammingmark.detection.search import KeySearch
from hammingmark.detection.thresholds import decide_by_threshold
from hammingmark.errors import InputError
from hammingmark.protocols import ScoredText, SignificanceTest, Watermark
from hammingmark.records import (
    TOPICS,
    DetectionWarning,
    Evidence,
    ExcludedKey,
    Passage,
    TopicName,
    Verdict,
)
from hammingmark.reports.text import (
    caveat_in_words,
    counted,
    format_p_value,
    of_a_hundred,
    times,
)
from hammingmark.stats.calibration import Calibration
from hammingmark.stats.compare import Comparison, compare
from hammingmark.stats.sums import SMALLEST
from hammingmark.text.words import is_english

REFERENCES = 4000
_REFERENCE_FACTOR = 4  # times the fewest reference keys that can reach the level
_STOP_AFTER = 100  # reference keys that reach a score before its test stops
_STOP_SOON_AFTER = 20  # the same where many keys are searched, and so many more are drawn
_MAX_REFERENCES = 40_000_000  # takes some minutes
_PROBABLE = 0.5  # the power from which a mark would probably be found
_DEEP = 10.0  # the smallest p-value of which a likelihood ratio is estimated: the level over this


def _do_nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Detector:
    """Judges texts under one key, or searches several.

    Attributes:
        reader: reads what the method scores.
        search: the keys.
        level: false-positive rate to keep, over all keys together.
        statistic: the statistic of the method that decides; by default its first.
        topic: whether the test is conditioned on the mean embedding of the text (``given``), so
            that reference keys project it as the secret key does, or not (``free``). Both keep the
            level over keys. Given the topic, the false-positive rates of single keys also differ
            little on texts of one topic. The default is given where the method supports it.
        references: K, the minimum number of reference keys. More are drawn if the level or the
            number of keys requires it. A test stops as soon as enough of them reach its score
            (Besag and Clifford's rule).
        calibration: fitted thresholds that decide instead of the p-value.
        threshold: a fixed threshold that decides instead of the p-value.
        among: the number of keys searched in all, if other detectors search the rest; the p-value
            is corrected for all of them. By default the number of its own keys.
        excluded: keys that were named but are not searched.
        english_encoder: the encoder, if it reads English only; a text in another language then
            gets a warning.
        pause: called between slices of long work; an exception from it ends the work.
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
    excluded: tuple[ExcludedKey, ...] = ()
    english_encoder: str = ""
    pause: Callable[[], None] = _do_nothing

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise InputError(f"The level must lie between 0 and 1, not {self.level}.")
        if self.level < SMALLEST:
            raise InputError(f"No p-value below {SMALLEST:g} is computed. Raise the level.")
        statistics = self.search.first.statistics
        if not self.statistic:
            object.__setattr__(self, "statistic", statistics[0])
        if self.statistic not in statistics:
            raise InputError(
                f"Unknown statistic {self.statistic!r}. Choose from {', '.join(statistics)}."
            )
        if self.topic not in (None, *TOPICS):
            raise InputError(f"topic must be 'given' or 'free', not {self.topic!r}.")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise InputError(f"threshold must be a finite number, not {self.threshold}.")
        if self.references < 1:
            raise InputError(f"At least one reference key is needed, not {self.references}.")
        if self.reader.edits and self.search.first.capabilities.read_edited is None:
            raise InputError(f"The method {self.search.first.name!r} does not support edits.")
        if self.reader.edits and (self.calibration or self.threshold is not None):
            raise InputError("A threshold cannot be combined with edits; use one of the two.")
        if self.threshold is not None and self.keys > 1:
            raise InputError(
                "A fixed threshold is not corrected for the number of keys. Use it with one key."
            )
        if self.calibration and self.threshold is not None:
            raise InputError("Give a calibration or a fixed threshold, not both.")

    def __repr__(self) -> str:
        return f"Detector({self.search.first.key.id}, keys={self.keys}, level={self.level:g})"

    @property
    def keys(self) -> int:
        """The number of keys that it searches."""
        return len(self.search)

    @property
    def searched(self) -> int:
        """The number of keys searched in all, for which p-values are corrected."""
        return max(self.among, self.keys)

    def judge(self, text: str) -> Verdict:
        """Judge one text."""
        return next(iter(self.judge_many([text])))

    def judge_many(self, texts: Iterable[str]) -> Iterator[Verdict]:
        """Judge texts in order, reading them in batches.

        Raises:
            InputError: a text is not a string, or ``texts`` is a single string.
        """
        require_several(texts)
        for batch in self.reader.batches(texts):
            yield from self.judge_read(batch)

    def judge_read(self, texts: list[ReadText]) -> Iterator[Verdict]:
        """Judge the texts that a reader returned."""
        candidates = self.search.candidates(texts, statistic=self.statistic)
        for text, watermarks in zip(texts, candidates, strict=True):
            yield replace(self._judge(text, watermarks), warnings=self._warnings(text))

    def _judge(self, text: ReadText, watermarks: list[Watermark]) -> Verdict:
        scored = [self._score(watermark, text) for watermark in watermarks]
        if not scored[0].evidence.scores:
            return self._too_short(scored[0].evidence, text)
        tests = [self._test(score) for score in scored]
        limit = self._max_references(tests)
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
        claiming = [
            i for i, comparison in enumerate(comparisons) if self._reached(comparison.joint)
        ]
        passages = sorted(
            (
                (passage, i)
                for i in claiming
                for passage in self._passages(
                    watermarks[i], comparisons[i], scored[i].evidence, text
                )
            ),
            key=lambda entry: entry[0].p_value,
        )
        best = min(range(len(scored)), key=lambda i: (i not in claiming, comparisons[i].p_value))
        if passages and not self._reached(comparisons[best].p_value):
            best = passages[0][1]
        evidence, watermark = scored[best].evidence, watermarks[best]
        if evidence.unit == "token" and self.statistic != watermark.statistics[0]:
            evidence = evidence.counting(tests[best].best != 0.0)
        verdict = replace(
            self._by_p_value(
                comparisons[best], evidence, text, tuple(passage for passage, _ in passages)
            ),
            key_id=watermark.key.id,
            label=watermark.key.label,
            method=watermark.key.config.method,
            exact=not watermark.capabilities.keyless,
            null=tests[best].null.description,
        )
        if caveat := caveat_in_words(verdict):
            verdict = replace(verdict, reason=f"{verdict.reason} {caveat}")
        threshold = self.calibration or self.threshold
        return (
            verdict if threshold is None else decide_by_threshold(verdict, tests[best], threshold)
        )

    def _reached(self, p_value: float) -> bool:
        """Whether a p-value of one key reaches the level, corrected for all keys."""
        return self.searched * p_value <= self.level

    def _max_references(self, tests: list[SignificanceTest]) -> int:
        """The maximum number of draws of the null distribution.

        Raises:
            InputError: it would take too long.
        """
        limit = math.ceil(_REFERENCE_FACTOR * self.searched / self.level)
        limit = max(self.references, limit)
        if limit > _MAX_REFERENCES and not all(test.null.computed for test in tests):
            raise InputError(
                f"Searching {counted(self.searched, 'key')} at the level {self.level:g} takes up "
                f"to {limit:,} reference keys, by which this p-value is counted. Search fewer "
                "keys, or raise the level."
            )
        return limit

    def _score(self, watermark: Watermark, text: ReadText) -> ScoredText:
        capabilities = watermark.capabilities
        if text.samples is not None and capabilities.samples is not None:
            return capabilities.samples.read_sampled(text.values, text.samples)
        if text.included is not None and capabilities.read_part is not None:
            return capabilities.read_part(text.values, text.included)
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
        piece, count = self.reader.piece, len(text.pieces)
        if count and piece == "token":
            reason = (
                f"The text has {counted(count, piece)}, none of which can be scored: each is "
                "judged by preceding tokens or words, and there are too few."
            )
        elif count > 1:
            reason = (
                f"The text has {counted(count, piece)}, too few: each is judged by those before it."
            )
        elif count == 1:
            reason = (
                f"The text has one {piece} that can carry the watermark; at least two are needed."
            )
        else:
            reason = f"The text has no {piece} that can carry the watermark."
        return self._verdict(None, None, reason, evidence, text)

    def _passages(
        self, watermark: Watermark, comparison: Comparison, evidence: Evidence, text: ReadText
    ) -> Iterator[Passage]:
        """The windows that carry the mark of one key at the level.

        A window covers the pieces that it scores and those before on which their scores depend:
        two sentences for one transition.
        """
        before = len(text.pieces) - len(evidence.scores)
        context = before if evidence.context_units is None else evidence.context_units
        key = watermark.key
        for window in comparison.windows:
            p_value = min(1.0, self.searched * window.p_value)
            if p_value <= self.level:
                begin, end = max(0, window.begin + before - context), window.end + before
                yield Passage(begin, end, p_value, key_id=key.id, label=key.label)

    def _by_p_value(
        self,
        comparison: Comparison,
        evidence: Evidence,
        text: ReadText,
        passages: tuple[Passage, ...],
    ) -> Verdict:
        p_value = min(1.0, self.searched * comparison.p_value)
        attainable = min(1.0, self.searched * comparison.attainable)
        joint = min(1.0, self.searched * comparison.joint)
        power = comparison.power(self.level / self.searched)
        as_written = power.as_written
        watermarked: bool | None = max(p_value, joint) <= self.level
        likelihood_ratio = None
        if watermarked:
            reason = f"p = {format_p_value(p_value)} is at most the level {self.level:g}."
        elif p_value <= self.level:
            reason = (
                f"p = {format_p_value(p_value)}, but p = {format_p_value(joint)} for the whole "
                f"text and its passages together, which is above the level {self.level:g}."
            )
        else:
            reason = f"p = {format_p_value(p_value)} is above the level {self.level:g}."
        if text.counted == 1 and self.reader.piece == "sentence":
            watermarked, passages = None, ()
            reason = f"One sentence is too little for a verdict. {reason}"
        elif as_written is not None and as_written < _PROBABLE and (watermarked or passages):
            smallest = min([p_value, *(passage.p_value for passage in passages)])
            likelihood_ratio = self._likelihood_ratio(comparison, smallest)
            watermarked, passages = None, ()
            reason = (
                f"p = {format_p_value(smallest)} is at most the level {self.level:g}, but the text "
                f"is too short for a verdict. So small a p-value is {times(likelihood_ratio)} as "
                "probable in a marked text like this one as in an unmarked one."
            )
        elif watermarked:
            pass
        elif attainable > self.level:
            watermarked = None
            reason = f"{_too_little(evidence)} no mark gives p below {attainable:.2g}."
        elif as_written is None:
            watermarked = None
            reason = f"{reason} It is not known how many marked texts like this one would be found."
        elif as_written < _PROBABLE:
            watermarked = None
            reason = (
                f"Too short to tell: only {of_a_hundred(as_written)} marked texts like this one "
                f"would be found at the level {self.level:g}, even if left as they were written."
            )
        if passages and not watermarked:
            first = passages[0]
            where = f"{self.reader.piece}s {first.begin + 1} to {first.end}"
            p = format_p_value(first.p_value)
            reason += f" But a passage, about {where}, is watermarked, p = {p}."
        tail_estimate = comparison.tail_estimate
        if tail_estimate is not None:
            tail_estimate = min(1.0, self.searched * tail_estimate)
        return replace(
            self._verdict(watermarked, p_value, reason, evidence, text),
            joint_p_value=joint,
            references=comparison.references,
            attainable=attainable,
            power=power.mean,
            power_as_written=as_written,
            power_reworded=power.reworded,
            detectable_passage=power.passage,
            likelihood_ratio=likelihood_ratio,
            tail_estimate=tail_estimate,
            passages=passages,
        )

    def _likelihood_ratio(self, comparison: Comparison, p_value: float) -> float:
        """How many times as probable so small a p-value is in marked text as in unmarked text.

        By the power as written at this p-value, or at a less small one if hardly any marked text
        would have it: the estimate is then too low rather than too high.
        """
        ratios = [
            (comparison.power(level / self.searched).as_written or 0.0) / level
            for level in (max(p_value, self.level / _DEEP), self.level)
        ]
        return max(1.0, *ratios)

    def _warnings(self, text: ReadText) -> tuple[DetectionWarning, ...]:
        separator = "" if self.reader.piece == "token" else " "
        if not self.english_encoder or is_english(separator.join(text.pieces)) is not False:
            return ()
        message = (
            "The text does not look like English, the only language of the encoder "
            f"{self.english_encoder}. The p-value is valid, but the mark is harder to find."
        )
        return (DetectionWarning("language", message),)

    def _verdict(
        self,
        watermarked: bool | None,
        p_value: float | None,
        reason: str,
        evidence: Evidence,
        text: ReadText,
    ) -> Verdict:
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
            excluded=self.excluded,
            edits=self.reader.edits,
        )


def require_several(texts: Iterable[str]) -> None:
    """Refuse a single text where several are expected.

    Raises:
        InputError: ``texts`` is a string.
    """
    if isinstance(texts, (str, bytes)):
        raise InputError("judge_many takes several texts, not one. Write [text], or judge.")


def _too_little(evidence: Evidence) -> str:
    """The beginning of the sentence that no key could reach the level."""
    units = counted(len(evidence.scores) - evidence.repeated, evidence.unit)
    repeated = ""
    if evidence.repeated:
        repeated = f" ({evidence.repeated:,} more are repeated, not counted)"
    if evidence.unit != "token":
        return f"Too short to tell: with {units} of this similarity{repeated}"
    return f"Too little evidence to tell: with {units}{repeated}"
