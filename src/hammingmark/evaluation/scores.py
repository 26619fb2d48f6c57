"""From the rows of an evaluation to the figures of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hammingmark.errors import InputError
from hammingmark.evaluation.metrics import (
    ROUNDS,
    Interval,
    auroc,
    bootstrap,
    mean_interval,
    threshold_at,
)
from hammingmark.evaluation.rows import Row

LEVELS = (0.01, 0.05)


def exact_scores(
    rows: Sequence[Row], *, levels: Iterable[float] = LEVELS, rounds: int = ROUNDS
) -> dict[str, Any]:
    """The share of texts detected by the exact p-value.

    Args:
        rows: of `stages.detect`, of one point and one attack.
        levels: of the p-value.
        rounds: of the bootstrap.

    Returns:
        ``texts``, ``keys``, mean ``units``, mean ``bits`` (log2 of 1/p), and for each level
        ``found at LEVEL``.

    Raises:
        InputError: there is no row.
    """
    groups = _by_key(rows)
    p_values = np.concatenate(list(groups.values()))
    figures: dict[str, Any] = {
        "texts": len(rows),
        "keys": len(groups),
        "units": float(np.mean([row["units"] for row in rows])),
        "bits": float(-np.log2(np.maximum(p_values, np.finfo(float).tiny)).mean()),
    }
    for level in levels:
        detected = {key: [float(p <= level) for p in values] for key, values in groups.items()}
        rng = np.random.default_rng(0)
        figures[f"found at {level:g}"] = mean_interval(detected, rng=rng, rounds=rounds)
    return figures


def calibrated_scores(
    rows: Sequence[Row],
    unmarked: Sequence[Row],
    *,
    levels: Iterable[float] = LEVELS,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """The share of texts detected by thresholds that a given share of unmarked texts exceeds.

    Each key has its own threshold, calibrated on the part ``calibration`` of the unmarked texts.
    The false-positive rates achieved and the AUROC are measured on the part ``test``.

    Args:
        rows: of `stages.detect`, of one point and one attack.
        unmarked: likewise, of unmarked texts under the same keys, with both parts.
        levels: the shares.
        rounds: of the bootstrap.

    Returns:
        ``auroc``, and for each level ``calibrated at LEVEL`` and ``achieved at LEVEL``.

    Raises:
        InputError: a key has no texts of one part.
    """
    marked = _by_key(rows, _score)
    parts = {
        part: _by_key([row for row in unmarked if row["part"] == part], _score)
        for part in ("calibration", "test")
    }
    for part, groups in parts.items():
        if missing := sorted(set(marked) - set(groups)):
            raise InputError(f"Key {missing[0]} has no unmarked texts for the {part}.")
    calibration, test = parts["calibration"], parts["test"]
    figures: dict[str, Any] = {}
    for level in levels:
        thresholds = {key: threshold_at(calibration[key], level) for key in marked}
        for name, groups in (("calibrated", marked), ("achieved", test)):
            exceeding = {
                key: [float(score > thresholds[key]) for score in groups[key]] for key in marked
            }
            rng = np.random.default_rng(0)
            figures[f"{name} at {level:g}"] = mean_interval(exceeding, rng=rng, rounds=rounds)
    high = np.concatenate([marked[key] for key in marked])
    low = np.concatenate([test[key] for key in marked])
    interval = bootstrap(auroc, high, low, rng=np.random.default_rng(0), rounds=min(rounds, 300))
    figures["auroc"] = Interval(auroc(high, low), *interval)
    return figures


def cost_figures(rows: Sequence[Row]) -> dict[str, float]:
    """The cost of writing texts, per sentence and per token.

    Args:
        rows: of `stages.write`, including texts that the model ended early.
    """

    def total(name: str) -> float:
        return float(sum(row["cost"][name] for row in rows))

    sentences = max(1, sum(row["sentences"] for row in rows))
    tokens, tried, seconds = (
        max(1, total("emitted_tokens")),
        total("candidates_tried"),
        total("seconds"),
    )
    wall = sum(row.get("seconds", row["cost"]["seconds"]) for row in rows)
    return {
        "texts": len(rows),
        "candidates": total("candidates") / sentences,
        "drawn_tokens": total("drawn_tokens") / sentences,
        "drawn_over_emitted": total("drawn_tokens") / tokens,
        "spare_over_emitted": total("spare_tokens") / tokens,
        "tokens_per_sentence": total("emitted_tokens") / sentences,
        "acceptance": total("candidates_accepted") / tried if tried else 1.0,
        "fallback": total("fallbacks") / sentences,
        "insisted": total("insisted") / sentences,
        "repeats": total("repeats") / sentences,
        "misfits": total("misfits") / sentences,
        "ms_per_token": 1e3 * wall / tokens,
        "encoder_share": total("encoder_seconds") / seconds if seconds else 0.0,
    }


def _score(row: Row) -> float:
    """A score that is higher for marked texts, in the order of p-values."""
    return -float(row["p_value"])


def _p_value(row: Row) -> float:
    return float(row["p_value"])


def _by_key(
    rows: Sequence[Row], value: Callable[[Row], float] = _p_value
) -> Mapping[int, list[float]]:
    if not rows:
        raise InputError("There is no text to compute a metric from.")
    groups: dict[int, list[float]] = {}
    for row in rows:
        groups.setdefault(row["key"], []).append(value(row))
    return dict(sorted(groups.items()))
