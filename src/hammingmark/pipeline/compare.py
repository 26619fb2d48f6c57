"""One text under its secret keys and under reference keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hammingmark.core import references
from hammingmark.core.passages import WindowScan, best_windows
from hammingmark.core.references import SequentialTest
from hammingmark.protocols import Trial
from hammingmark.records import Passage


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one text does under one secret key, next to the reference keys.

    Attributes:
        p_value: of the whole text.
        references: how many reference keys that took.
        attainable: the smallest p-value any key could have had on this text.
        tail_estimate: an estimate where no reference key reached the score, otherwise None.
        windows: every maximal window with its p-value over all windows, best first.
    """

    p_value: float
    references: int
    attainable: float
    tail_estimate: float | None
    windows: tuple[Passage, ...]


def compare(trials: Sequence[Trial], *, limit: int, stop_after: int = 0) -> list[Comparison]:
    """Test a text under each of several keys that share their reference keys.

    Args:
        trials: the text, of at least two sentences, under each key.
        limit: K, the most reference keys to draw.
        stop_after: how many of them may reach a score before its test stops; 0 never stops.
    """
    windows = [best_windows(trial.own - trial.centre) for trial in trials]
    whole_tests = [SequentialTest(float(trial.own.sum()), limit, stop_after) for trial in trials]
    window_tests = [
        SequentialTest(found[0][2] if found else 0.0, limit, stop_after) for found in windows
    ]
    wholes: list[NDArray[np.float64]] = []
    scans: list[NDArray[np.float64]] = []
    draws = _reference_scores(trials[0])
    while not all(test.stopped for test in (*whole_tests, *window_tests)):
        whole, scan = next(draws)
        wholes.append(whole)
        scans.append(scan)
        for test in whole_tests:
            test.update(whole)
        for test in window_tests:
            test.update(scan)
    every_whole = np.concatenate(wholes)[:limit]
    every_scan = np.concatenate(scans)[:limit]
    attainable = references.p_value(every_whole, float(trials[0].best.sum()))
    return [
        Comparison(
            p_value=test.p_value,
            references=test.drawn,
            attainable=min(attainable, test.p_value),
            tail_estimate=None
            if test.reached
            else references.tail_estimate(every_whole, test.score),
            windows=tuple(
                Passage(begin, end + 1, references.p_value(every_scan, score))
                for begin, end, score in found
            ),
        )
        for test, found in zip(whole_tests, windows, strict=True)
    ]


def _reference_scores(
    trial: Trial,
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
