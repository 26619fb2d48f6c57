"""One text under its secret key, compared with the null distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hammingmark.protocols import ComputedNull, NullDistribution, SignificanceTest
from hammingmark.records import Passage
from hammingmark.stats import references
from hammingmark.stats.passages import best_windows, scan_along
from hammingmark.stats.references import SequentialTest

# Rounding may blur a tie by this much a transition. Where every reference key ties with the secret
# one (a sentence said over and over), a blurred tie would pass for the smallest p-value there is.
_BLUR = 1e-6

_ORDINARY = 0.5  # the p-value above which a window is not worth naming
_ORDINARY_ONES = 16  # so many such windows, and the rest is not looked at


@dataclass(frozen=True)
class TextTest:
    """One text and one statistic, ready to be compared: a `SignificanceTest`.

    Attributes:
        own: what each of the u units adds to the statistic under the secret key, (u,).
        best: the most that any key could give each unit, (u,).
        centre: what to take off each increment before windows are compared, (u,).
        null: the null distribution.
        is_ratio: whether the increments are log-likelihood ratios.
    """

    own: NDArray[np.float64]
    best: NDArray[np.float64]
    centre: NDArray[np.float64]
    null: NullDistribution
    is_ratio: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one text does under one secret key, next to the null distribution.

    Attributes:
        p_value: of the whole text.
        references: how many draws of the null distribution that took.
        attainable: the smallest p-value any key could have had on this text.
        power: how often a marked text like this one would be found, an estimate; None where
            there is none.
        tail_estimate: an estimate where no draw reached the score, otherwise None.
        windows: every maximal window of increments with its p-value over all windows, best first.
    """

    p_value: float
    references: int
    attainable: float
    power: float | None
    tail_estimate: float | None
    windows: tuple[Passage, ...]


def compare(
    test: SignificanceTest,
    *,
    limit: int,
    level: float = 0.01,
    stop_after: int = 0,
    pause: Callable[[], None] = lambda: None,
) -> Comparison:
    """Test a text of at least one unit.

    Args:
        test: the text under the secret key and under the null distribution.
        limit: K, the most draws of it to look at.
        level: the p-value to reach, for the estimate of power.
        stop_after: how many of them may reach a score before its test stops; 0 never stops.
        pause: called now and then; what it raises ends the test.
    """
    if computed := test.null.computed:
        return _compare_by_tails(test, computed, level=level, pause=pause)
    windows = best_windows(test.own - test.centre)
    blur = _BLUR * len(test.own)
    total, best = float(test.own.sum()) - blur, float(test.best.sum()) - blur
    whole = SequentialTest(total, limit, stop_after)
    window = SequentialTest(windows[0][2] - blur if windows else 0.0, limit, stop_after)
    wholes: list[NDArray[np.float64]] = []
    scans: list[NDArray[np.float64]] = []
    blocks = test.null.blocks()
    while not (whole.stopped and window.stopped):
        pause()
        sums, bests = scan_along(next(blocks), test.centre)
        wholes.append(sums)
        scans.append(bests)
        whole.update(sums)
        window.update(bests)
    every_whole = np.concatenate(wholes)[:limit]
    every_scan = np.concatenate(scans)[:limit]
    # A test that stopped early has drawn too few keys to show a small p-value; what it could have
    # reached by going on is told by the share of keys that reach the best.
    as_good = float(references.reaches(every_whole, best).mean())
    reachable = (1 + round(limit * as_good)) / (limit + 1)
    return Comparison(
        p_value=whole.p_value,
        references=whole.drawn,
        attainable=min(whole.p_value, reachable),
        power=references.power(every_whole, level=level) if test.is_ratio else None,
        tail_estimate=references.tail_estimate(every_whole, total) if not whole.reached else None,
        windows=tuple(
            Passage(begin, end, sequential_p_value(every_scan, score - blur, limit, stop_after))
            for begin, end, score in windows
        ),
    )


def _compare_by_tails(
    test: SignificanceTest, null: ComputedNull, *, level: float, pause: Callable[[], None]
) -> Comparison:
    """The same where the null knows its tails; windows as long as they are out of the way."""
    windows: list[Passage] = []
    ordinary = 0
    for begin, end, _ in best_windows(test.own - test.centre):
        pause()
        p_value = null.window_p_value(test.own, slice(begin, end))
        if p_value <= _ORDINARY:
            windows.append(Passage(begin, end, p_value))
            continue
        # Those that follow have smaller sums, which in another section may still be remarkable.
        ordinary += 1
        if ordinary == _ORDINARY_ONES:
            break
    windows.sort(key=lambda window: window.p_value)
    p_value = null.p_value(test.own)
    return Comparison(
        p_value=p_value,
        references=null.draws,
        attainable=min(p_value, null.attainable),
        power=null.power(level),
        tail_estimate=None,
        windows=tuple(windows),
    )


def sequential_p_value(
    scores: NDArray[np.float64], score: float, limit: int, stop_after: int
) -> float:
    """What a test of its own would have said of a score, on draws that went on for another's sake.

    A lower score is reached at least as often, so that its test has stopped when the best one's
    has; what was drawn later must not count.
    """
    test = SequentialTest(score, limit, stop_after)
    test.update(scores)
    return test.p_value
