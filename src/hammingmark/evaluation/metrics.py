"""How well scores tell marked from unmarked texts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hammingmark.errors import InputError

Scores = npt.NDArray[np.float64]


def auroc(marked: npt.ArrayLike, unmarked: npt.ArrayLike) -> float:
    """P(a marked text scores higher than an unmarked one), ties counting half."""
    high, low = _scores(marked), np.sort(_scores(unmarked))
    below = np.searchsorted(low, high, side="left")
    upto = np.searchsorted(low, high, side="right")
    return float(((below + upto) / 2.0).mean() / len(low))


def threshold_at(unmarked: npt.ArrayLike, level: float) -> float:
    """The least score that at most a share ``level`` of the unmarked texts exceeds."""
    scores = np.sort(_scores(unmarked))
    if not 0.0 < level < 1.0:
        raise InputError(f"A level lies between 0 and 1, not {level}.")
    allowed = int(np.floor(level * len(scores)))
    return float(scores[len(scores) - 1 - allowed])


def found_at(p_values: npt.ArrayLike, level: float) -> float:
    """The share of texts whose p-value is at most the level."""
    return float((_scores(p_values) <= level).mean())


def bootstrap(
    statistic: Callable[..., float],
    *samples: npt.ArrayLike,
    rng: np.random.Generator,
    rounds: int = 1000,
) -> tuple[float, float]:
    """Percentile interval of 95 % for a statistic of independent samples, each drawn anew."""
    arrays = [_scores(sample) for sample in samples]
    values = [
        statistic(*(array[rng.integers(len(array), size=len(array))] for array in arrays))
        for _ in range(rounds)
    ]
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _scores(values: npt.ArrayLike) -> Scores:
    scores = np.asarray(values, dtype=np.float64).ravel()
    if not len(scores):
        raise InputError("A score of no text at all says nothing.")
    if np.isnan(scores).any():
        raise InputError("A score is not a number.")
    return scores
