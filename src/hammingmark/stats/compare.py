"""Comparing one text under the secret key with the null distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hammingmark.protocols import Alternatives, ComputedNull, NullDistribution, SignificanceTest
from hammingmark.records import Passage, Power
from hammingmark.stats import references
from hammingmark.stats.counted_power import CountedPower
from hammingmark.stats.joint import either, joint_p_value
from hammingmark.stats.passages import best_windows, scan_along
from hammingmark.stats.references import SequentialTest

# Rounding may change a tied score by this much per transition. If all reference keys tie with the
# secret key (one sentence repeated), a tie that is missed would give the smallest possible p-value.
_ROUNDING = 1e-6

_ORDINARY = 0.5  # p-value above which a window is not listed
_MOST_ORDINARY = 16  # number of such windows after which the rest is skipped


@dataclass(frozen=True)
class TextTest:
    """The test of one text by one statistic: a `SignificanceTest`.

    Attributes:
        increments: what each of the u units adds to the statistic under the secret key, (u,).
        best: the largest increments that any key could give, or bounds on their cumulative sums,
            (u,).
        centre: what is subtracted from each increment before windows are compared, (u,).
        null: the null distribution.
        is_ratio: whether the increments are log-likelihood ratios.
        alternatives: what marked texts are like, if draws of the null distribution are counted.
    """

    increments: NDArray[np.float64]
    best: NDArray[np.float64]
    centre: NDArray[np.float64]
    null: NullDistribution
    is_ratio: bool = False
    alternatives: Alternatives = field(default_factory=Alternatives)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing one text under one secret key with the null distribution.

    Attributes:
        p_value: p-value of the whole text.
        joint: p-value of the whole text and its best window together.
        references: the number of draws of the null distribution.
        attainable: the smallest p-value that any key could have on this text.
        power: estimates how often marked texts like this one reach a level.
        tail_estimate: an estimate of the p-value if no draw reached the score, otherwise None.
        windows: every maximal window of increments with its p-value over all windows, best first.
    """

    p_value: float
    joint: float
    references: int
    attainable: float
    power: Callable[[float], Power]
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
        limit: K, the largest number of draws of the null distribution.
        level: a test that reaches this p-value is not stopped early.
        stop_after: the number of draws that reach a score after which its test stops; 0 for never.
        pause: called between blocks of draws; an error that it raises ends the test.
    """
    if computed := test.null.computed:
        return _compare_by_tails(test, computed, pause=pause)
    windows = best_windows(test.increments - test.centre)
    rounding = _ROUNDING * len(test.increments)
    total, best = float(test.increments.sum()) - rounding, float(test.best.sum()) - rounding
    text_test = SequentialTest(total, limit, stop_after)
    window_test = SequentialTest(windows[0][2] - rounding if windows else 0.0, limit, stop_after)
    sum_blocks: list[NDArray[np.float64]] = []
    maximum_blocks: list[NDArray[np.float64]] = []
    blocks = test.null.blocks()
    drawn = 0
    # What may be claimed is compared with all draws, so that the joint p-value is exact.
    while drawn < limit and not (
        text_test.stopped
        and window_test.stopped
        and min(text_test.p_value, window_test.p_value) > level
    ):
        pause()
        sums, maxima = scan_along(next(blocks), test.centre)
        sum_blocks.append(sums)
        maximum_blocks.append(maxima)
        drawn += len(sums)
        text_test.update(sums)
        window_test.update(maxima)
    sums = np.concatenate(sum_blocks)[:limit]
    maxima = np.concatenate(maximum_blocks)[:limit]
    powers = CountedPower(test, sums, maxima)
    # A test that stopped early has drawn too few keys to show a small p-value. The share of keys
    # that reach the best possible score tells what all draws could have shown.
    share = float(references.reaches(sums, best).mean())
    reachable = (1 + round(limit * share)) / (limit + 1)
    p_values = text_test.p_value, window_test.p_value
    if len(sums) < limit:  # both tests stopped at ordinary p-values
        joint = either(*p_values)
    else:
        joint = joint_p_value(
            np.append(text_test.score, sums),
            np.append(window_test.score, maxima),
            np.ones(limit + 1),
        )
    return Comparison(
        p_value=text_test.p_value,
        joint=joint,
        references=text_test.drawn,
        attainable=min(text_test.p_value, reachable),
        power=powers.at,
        tail_estimate=references.tail_estimate(sums, total) if not text_test.reached else None,
        windows=tuple(
            Passage(begin, end, sequential_p_value(maxima, score - rounding, limit, stop_after))
            for begin, end, score in windows
        ),
    )


def _compare_by_tails(
    test: SignificanceTest, null: ComputedNull, *, pause: Callable[[], None]
) -> Comparison:
    """The same for a null distribution that computes tails; ordinary windows are not listed."""
    windows: list[Passage] = []
    ordinary = 0
    for begin, end, _ in best_windows(test.increments - test.centre):
        pause()
        p_value = null.window_p_value(test.increments, slice(begin, end))
        if p_value <= _ORDINARY:
            windows.append(Passage(begin, end, p_value))
            continue
        # The windows that follow have smaller sums, but in another section of the text these may
        # have small p-values.
        ordinary += 1
        if ordinary == _MOST_ORDINARY:
            break
    windows.sort(key=lambda window: window.p_value)
    p_value = null.p_value(test.increments)
    joint = null.joint_p_value(test.increments)
    if joint is None:
        joint = either(p_value, windows[0].p_value if windows else 1.0)
    return Comparison(
        p_value=p_value,
        joint=joint,
        references=null.draws,
        attainable=min(p_value, null.attainable),
        power=null.power,
        tail_estimate=None,
        windows=tuple(windows),
    )


def sequential_p_value(
    scores: NDArray[np.float64], score: float, limit: int, stop_after: int
) -> float:
    """The p-value of a score by its own sequential test, on draws made for several scores.

    The test of a lower score stops no later than that of the best score, because as many draws or
    more reach it. Draws after its stop must not count.
    """
    test = SequentialTest(score, limit, stop_after)
    test.update(scores)
    return test.p_value
