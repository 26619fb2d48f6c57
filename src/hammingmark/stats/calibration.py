"""Thresholds fitted on unmarked text for each length, as in the paper.

A calibration is valid only for texts like those it was fitted on; the p-value over reference keys
needs none. It serves for comparison, and for users who must keep a rate on one kind of text of
which they have many examples.
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
    """The increments of counted units, (c,), whose mean is compared with a threshold.

    A unit that is repeated, or whose increment is 0 under every key, does not count.
    """
    increments: NDArray[np.float64] = test.increments[test.best != 0.0]
    return increments


@dataclass
class Calibration:
    """Thresholds by length for the mean of a statistic over the transitions of a text.

    Attributes:
        statistic: name of the statistic.
        level: false-positive rate on text like that of the fit.
        key_id: id of the key of the fit; the thresholds are not valid for another key.
        fingerprint: fingerprint of the encoder.
        provenance: where the texts came from.
        lengths_: numbers of transitions that have a threshold, ascending.
        thresholds_: the threshold of each length.
        windows_: the number of unmarked texts behind each threshold.
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
        """Fit the thresholds on the counted increments (c_i,) of unmarked texts.

        For each length, every text that is long enough contributes its first window only, because
        windows of one text are not independent.

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
                f"A threshold at level {self.level:g} needs at least {needed} unmarked texts of "
                "three or more sentences. Add texts or raise the level."
            )
        return self

    def threshold(self, transitions: int) -> float:
        """The threshold for this number of transitions: that of the next shorter length.

        Shorter texts vary more, so the threshold is rather too high than too low. Below the
        shortest length it is infinite.
        """
        if not self.lengths_:
            raise CalibrationError("This calibration is not fitted; call fit first.")
        index = bisect_right(self.lengths_, transitions) - 1
        return self.thresholds_[index] if index >= 0 else math.inf

    def to_json(self) -> dict[str, Any]:
        """The calibration as plain data for a file."""
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
        """The calibration that `to_json` wrote.

        Raises:
            CalibrationError: the data is not a calibration.
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
