"""Thresholds fitted on text known to be unmarked, as in the paper, for each length.

A calibration holds for texts like those it was fitted on and for no others; the p-value over
reference keys needs none. It is here for comparison, and for users who must keep a rate on one
kind of text that they have plenty of.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import CalibrationError
from hammingmark.protocols import SignificanceTest

FORMAT = "hammingmark-calibration"
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def counted_increments(test: SignificanceTest) -> NDArray[np.float64]:
    """What the units that count add to a statistic, (c,): its mean is compared with a threshold.

    One that came before, or says nothing under any key, does not count.
    """
    counted: NDArray[np.float64] = test.own[test.best != 0.0]
    return counted


@dataclass
class Calibration:
    """Per-length thresholds for the mean of a statistic over a text's transitions.

    Attributes:
        statistic: which one.
        level: false-positive rate to keep on text like that of the fit.
        key_id: the key it was fitted under; thresholds do not carry to another.
        fingerprint: the encoder's fingerprint.
        provenance: where the texts came from, for the record.
        lengths_: transitions for which a threshold was learned, ascending.
        thresholds_: one for each length.
        windows_: on how many unmarked texts each rests.
    """

    statistic: str
    level: float
    key_id: str
    fingerprint: str
    provenance: Mapping[str, Any] = field(default_factory=dict)
    lengths_: list[int] = field(default_factory=list)
    thresholds_: list[float] = field(default_factory=list)
    windows_: list[int] = field(default_factory=list)

    def fit(self, texts: Sequence[NDArray[np.float64]]) -> Calibration:
        """Learn from the counted increments (c_i,) of unmarked texts.

        For each length, every text that is long enough gives one window, its first: windows of
        one text are too much alike to count as several.

        Raises:
            CalibrationError: too few texts for any threshold at this level.
        """
        if not 0.0 < self.level < 1.0:
            raise CalibrationError(f"The level must lie between 0 and 1, not {self.level}.")
        needed = math.ceil(1.0 / self.level) - 1
        self.lengths_, self.thresholds_, self.windows_ = [], [], []
        for length in LENGTHS:
            means = np.sort([float(text[:length].mean()) for text in texts if len(text) >= length])
            if len(means) < needed:
                continue
            rank = math.ceil((1.0 - self.level) * (len(means) + 1))
            self.lengths_.append(length)
            self.thresholds_.append(float(means[min(rank, len(means)) - 1]))
            self.windows_.append(len(means))
        if not self.lengths_:
            raise CalibrationError(
                f"A threshold at {self.level:g} needs at least {needed} unmarked texts of three "
                f"sentences or more; these are too few. Add texts or raise the level."
            )
        return self

    def threshold(self, transitions: int) -> float:
        """The threshold for a text of so many transitions: that of the next shorter length.

        Shorter texts vary more, so this errs on the side of no false alarm; below the shortest
        length nothing is high enough.
        """
        if not self.lengths_:
            raise CalibrationError("This calibration was never fitted; call fit first.")
        at = bisect_right(self.lengths_, transitions) - 1
        return self.thresholds_[at] if at >= 0 else math.inf

    def to_json(self) -> dict[str, Any]:
        """Plain data for a file."""
        return {
            "format": FORMAT,
            "statistic": self.statistic,
            "level": self.level,
            "key_id": self.key_id,
            "encoder_fingerprint": self.fingerprint,
            "provenance": dict(self.provenance),
            "thresholds": [
                {"transitions": length, "threshold": threshold, "windows": windows}
                for length, threshold, windows in zip(
                    self.lengths_, self.thresholds_, self.windows_, strict=True
                )
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Calibration:
        """What `to_json` wrote.

        Raises:
            CalibrationError: it is something else.
        """
        try:
            if data["format"] != FORMAT:
                raise CalibrationError("This is not a calibration file of this version.")
            rows = data["thresholds"]
            return cls(
                statistic=str(data["statistic"]),
                level=float(data["level"]),
                key_id=str(data["key_id"]),
                fingerprint=str(data["encoder_fingerprint"]),
                provenance=dict(data["provenance"]),
                lengths_=[int(row["transitions"]) for row in rows],
                thresholds_=[float(row["threshold"]) for row in rows],
                windows_=[int(row["windows"]) for row in rows],
            )
        except (LookupError, TypeError, ValueError):
            raise CalibrationError("This is not a calibration file: a field is missing.") from None
