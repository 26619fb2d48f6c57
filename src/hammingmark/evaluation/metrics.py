"""Metrics of how well scores separate marked from unmarked texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hammingmark.errors import InputError
from hammingmark.registry import require_libraries

Scores = npt.NDArray[np.float64]

LIBRARIES = ("sklearn", "scipy")
ROUNDS = 1000
"""Resamples of a bootstrap, by default."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def require_metrics() -> None:
    """Check that the libraries for metrics are installed.

    Raises:
        InputError: one is missing; the message names the extra that contains it.
    """
    require_libraries(LIBRARIES, part="An evaluation", extra="bench", error=InputError)


def auroc(marked: npt.ArrayLike, unmarked: npt.ArrayLike) -> float:
    """The AUROC: P(a marked text scores higher than an unmarked one), ties counting half."""
    require_metrics()
    from sklearn.metrics import roc_auc_score

    high, low = _scores(marked), _scores(unmarked)
    labels = np.concatenate([np.ones(len(high)), np.zeros(len(low))])
    return float(roc_auc_score(labels, np.concatenate([high, low])))


def threshold_at(unmarked: npt.ArrayLike, level: float) -> float:
    """The least score that at most a share ``level`` of the unmarked texts exceeds.

    Raises:
        InputError: the level is not between 0 and 1.
    """
    if not 0.0 < level < 1.0:
        raise InputError(f"The level must be between 0 and 1, not {level}.")
    return float(np.quantile(_scores(unmarked), 1.0 - level, method="inverted_cdf"))


def found_at(p_values: npt.ArrayLike, level: float) -> float:
    """The share of texts with a p-value of at most ``level``."""
    return float((_scores(p_values) <= level).mean())


def bootstrap(
    statistic: Callable[..., float],
    *samples: npt.ArrayLike,
    rng: np.random.Generator,
    rounds: int = ROUNDS,
) -> tuple[float, float]:
    """A 95 % percentile interval of a statistic of independent samples, each resampled."""
    require_metrics()
    from scipy import stats

    arrays = [_scores(sample) for sample in samples]
    if any(len(array) < 2 for array in arrays):  # there is only one resample
        value = statistic(*arrays)
        return value, value
    result: Any = stats.bootstrap(
        arrays,
        statistic,
        n_resamples=rounds,
        vectorized=False,
        method="percentile",
        confidence_level=0.95,
        rng=rng,
    )
    low, high = result.confidence_interval
    return float(low), float(high)


def mean_interval(
    groups: Mapping[Any, Sequence[float]], *, rng: np.random.Generator, rounds: int = ROUNDS
) -> Interval:
    """The mean over all texts, with an interval over keys and over the texts of each key.

    Keys are resampled with replacement, and then the texts of each sampled key.

    Args:
        groups: a value for every text, by key.
        rng: draws the resamples.
        rounds: the number of resamples.

    Raises:
        InputError: there is no text, or a value is not a number.
    """
    rows = [_scores(values) for values in groups.values() if len(values)]
    value = float(_scores(np.concatenate([np.empty(0), *rows])).mean())
    means = np.empty(rounds)
    for i in range(rounds):
        drawn = [rows[key] for key in rng.integers(len(rows), size=len(rows))]
        texts = [row[rng.integers(len(row), size=len(row))] for row in drawn]
        means[i] = np.concatenate(texts).mean()
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(value, float(low), float(high))


def _scores(values: npt.ArrayLike) -> Scores:
    scores = np.asarray(values, dtype=np.float64).ravel()
    if not len(scores):
        raise InputError("There is no text to compute a metric from.")
    if np.isnan(scores).any():
        raise InputError("A score is not a number.")
    return scores
