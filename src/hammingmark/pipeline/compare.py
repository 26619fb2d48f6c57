"""One text under its secret key and under reference keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hammingmark.core import references
from hammingmark.core.passages import WindowScan, best_windows
from hammingmark.core.references import SequentialTest
from hammingmark.protocols import KeyRandomizationTest
from hammingmark.records import Passage

# Rounding may blur a tie by this much a transition. Where every reference key ties with the secret
# one (a sentence said over and over), a blurred tie would pass for the smallest p-value there is.
_BLUR = 1e-6


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one text does under one secret key, next to the reference keys.

    Attributes:
        p_value: of the whole text.
        references: how many reference keys that took.
        attainable: the smallest p-value any key could have had on this text.
        power: how often a marked text like this one would be found, an estimate; None where the
            statistic is not a likelihood ratio.
        tail_estimate: an estimate where no reference key reached the score, otherwise None.
        windows: every maximal window with its p-value over all windows, best first.
    """

    p_value: float
    references: int
    attainable: float
    power: float | None
    tail_estimate: float | None
    windows: tuple[Passage, ...]


def compare(
    trial: KeyRandomizationTest, *, limit: int, level: float = 0.01, stop_after: int = 0
) -> Comparison:
    """Test a text of at least two sentences.

    Args:
        trial: the text under the secret key and the reference keys.
        limit: K, the most reference keys to draw.
        level: the p-value to reach, for the estimate of power.
        stop_after: how many of them may reach a score before its test stops; 0 never stops.
    """
    windows = best_windows(trial.own - trial.centre)
    blur = _BLUR * len(trial.own)
    whole = SequentialTest(float(trial.own.sum()) - blur, limit, stop_after)
    window = SequentialTest(windows[0][2] - blur if windows else 0.0, limit, stop_after)
    wholes: list[NDArray[np.float64]] = []
    scans: list[NDArray[np.float64]] = []
    draws = _reference_scores(trial)
    while not (whole.stopped and window.stopped):
        sums, bests = next(draws)
        wholes.append(sums)
        scans.append(bests)
        whole.update(sums)
        window.update(bests)
    every_whole = np.concatenate(wholes)[:limit]
    every_scan = np.concatenate(scans)[:limit]
    # A test that stopped early has drawn too few keys to show a small p-value; what it could have
    # reached by going on is told by the share of keys that reach the best.
    as_good = references.reaches(every_whole, float(trial.best.sum()) - blur).mean()
    shown = max(level, 10 / (len(every_whole) + 1))
    return Comparison(
        p_value=whole.p_value,
        references=whole.drawn,
        attainable=min(whole.p_value, (1 + round(limit * float(as_good))) / (limit + 1)),
        power=references.power(every_whole, level=shown) if trial.is_ratio else None,
        tail_estimate=None if whole.reached else references.tail_estimate(every_whole, whole.score),
        windows=tuple(
            Passage(begin, end + 1, references.p_value(every_scan, score - blur))
            for begin, end, score in windows
        ),
    )


def _reference_scores(
    trial: KeyRandomizationTest,
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """For block after block of reference keys, the whole sum and the best window's: (k,) each."""
    for block in trial.reference_blocks():
        total: NDArray[np.float64] = np.zeros(())
        scan = WindowScan()
        first = 0
        for values in block:
            total = total + values.sum(axis=0)
            scan.update(values - trial.centre[first : first + len(values), None])
            first += len(values)
        yield total, scan.best
