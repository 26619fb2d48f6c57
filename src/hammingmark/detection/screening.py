"""What the verdicts on many texts say together: false positives to expect, and what stands."""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hammingmark.detection.shared import SentenceCounts
from hammingmark.errors import InputError
from hammingmark.protocols import DoubleArray
from hammingmark.records import Correction, CorrectionName, Screening, Verdict
from hammingmark.stats import multiplicity

DISCOVERY_RATE = 0.05
"""The false-discovery rate by default."""

_SHOWN = 20  # texts that are named


@dataclass
class Screen:
    """Takes the verdicts on many texts one by one, and keeps a few bytes for each sentence.

    Attributes:
        discovery_rate: the false-discovery rate.
        exact: whether the p-values are exact; those of keyless methods are not.
    """

    discovery_rate: float = DISCOVERY_RATE
    exact: bool = True
    _p_values: array[float] = field(default_factory=lambda: array("d"), init=False, repr=False)
    _best: list[tuple[float, int, str]] = field(default_factory=list, init=False, repr=False)
    _in_part: int = field(default=0, init=False)
    _runs: int = field(default=0, init=False)
    _sentences: SentenceCounts = field(default_factory=SentenceCounts, init=False, repr=False)
    _counts: dict[bool | None, int] = field(
        default_factory=lambda: {True: 0, False: 0, None: 0}, init=False
    )

    def __post_init__(self) -> None:
        if not 0.0 < self.discovery_rate < 1.0:
            raise InputError(
                f"The false-discovery rate must lie between 0 and 1, not {self.discovery_rate}."
            )

    def add(self, name: str, verdict: Verdict) -> None:
        """Take the verdict on the text of this name."""
        self._counts[verdict.watermarked] += 1
        self._in_part += bool(verdict.passages) and not verdict.watermarked
        if verdict.evidence.unit != "token":
            self._sentences.add(verdict.pieces)
        self._take(name, verdict)

    def add_run(self, name: str, verdict: Verdict) -> None:
        """Take the verdict on sentences that several texts share; it counts as a further test."""
        self._runs += bool(verdict.watermarked)
        self._take(name, verdict)

    def _take(self, name: str, verdict: Verdict) -> None:
        # What a verdict claims, of the whole text or of a passage, is decided by the joint p-value.
        p_value = verdict.p_value if verdict.joint_p_value is None else verdict.joint_p_value
        if p_value is None:
            return
        self._p_values.append(p_value)
        insort(self._best, (p_value, len(self._p_values), name))
        del self._best[_SHOWN:]

    def result(self, *, level: float) -> Screening:
        """What the verdicts so far say together.

        Args:
            level: that of each verdict, and the family-wise error rate.
        """
        p_values = np.array(self._p_values)
        corrections = (
            _correction("holm", level, p_values, multiplicity.holm),
            _correction(
                "benjamini-yekutieli",
                self.discovery_rate,
                p_values,
                multiplicity.benjamini_yekutieli,
            ),
            _correction(
                "benjamini-hochberg", self.discovery_rate, p_values, multiplicity.benjamini_hochberg
            ),
        )
        cutoff = max((each.largest for each in corrections if each.largest is not None), default=-1)
        shared = self._sentences.shared()
        return Screening(
            texts=sum(self._counts.values()),
            watermarked=self._counts[True],
            in_part=self._in_part,
            not_found=self._counts[False],
            undecided=self._counts[None],
            runs=self._runs,
            tested=len(p_values),
            level=level,
            expected=level * len(p_values),
            exact=self.exact,
            shared_sentences=len(shared),
            most_sharing=shared.most,
            corrections=corrections,
            smallest=tuple((name, p) for p, _, name in self._best if p <= cutoff),
        )


def _correction(
    name: CorrectionName,
    rate: float,
    p_values: DoubleArray,
    procedure: Callable[[DoubleArray, float], float | None],
) -> Correction:
    largest = procedure(p_values, rate)
    stands = 0 if largest is None else int((p_values <= largest).sum())
    return Correction(name, rate, stands, largest)
