"""Whether a mark changes what a model answers: accuracy and usual answers, per key and overall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hammingmark.evaluation.datasets.questions import Question
from hammingmark.evaluation.rows import Row

ROUNDS = 2000


def fidelity_figures(
    questions: Sequence[Question],
    unmarked: Sequence[Row],
    marked: Sequence[Row],
    *,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """The accuracy of marked and unmarked answers to the same questions.

    With as many draws as keys, the draw and the key of one number are compared as a pair. They have
    the same seed (`stages.write`), so what the mark leaves alone is the same in both.

    Args:
        questions: with ids.
        unmarked: rows of `stages.write` without a mark, several for each question.
        marked: rows under several keys, one for each question and key.
        rng: draws questions and keys of the bootstrap.

    Returns:
        ``accuracy`` and ``unusual``, the share of answers that are not the model's usual one, each
        unmarked and marked, in percent; ``change`` of both, with 95 % intervals over questions and
        keys; ``keys``: the lowest and the highest accuracy, and ``spread``, the standard deviation
        of the keys' accuracies over what chance alone gives.
    """
    by_id = {question.id: question for question in questions}
    usual = {
        name: Counter(by_id[name].answer_in(row["text"]) for row in rows).most_common(1)[0][0]
        for name, rows in _by(unmarked, "id").items()
    }

    def right(row: Row) -> float:
        return float(by_id[row["id"]].is_right(row["text"]))

    def unusual(row: Row) -> float:
        return float(by_id[row["id"]].answer_in(row["text"]) != usual[row["id"]])

    figures: dict[str, Any] = {"questions": len(usual), "keys": len(_by(marked, "key"))}
    for name, value in (("accuracy", right), ("unusual", unusual)):
        before, after = _table(unmarked, value, usual), _table(marked, value, usual)
        changes = _changes(before, after, rng)
        low, high = np.quantile(changes, [0.025, 0.975])
        figures[name] = {
            "unmarked": 100.0 * float(before.mean()),
            "marked": 100.0 * float(after.mean()),
            "change": 100.0 * float(after.mean() - before.mean()),
            "interval": [100.0 * float(low), 100.0 * float(high)],
        }
    table = _table(marked, right, usual)
    figures["by key"] = {
        "lowest": 100.0 * float(table.mean(axis=0).min()),
        "highest": 100.0 * float(table.mean(axis=0).max()),
        "spread": _spread(table),
    }
    return figures


def _table(
    rows: Sequence[Row], value: Callable[[Row], float], ids: Mapping[str, object]
) -> NDArray[np.float64]:
    """A value by question and key (or draw): (questions, keys)."""
    by_id = _by(rows, "id")
    return np.array(
        [[value(row) for row in sorted(by_id[name], key=lambda row: row["key"])] for name in ids]
    )


def _changes(
    before: NDArray[np.float64], after: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """The change of the mean under resamples of questions, and of the keys and draws: (rounds,)."""
    changes = np.empty(ROUNDS)
    are_pairs = before.shape == after.shape
    for i in range(ROUNDS):
        questions = rng.integers(len(before), size=len(before))
        keys = rng.integers(after.shape[1], size=after.shape[1])
        draws = keys if are_pairs else rng.integers(before.shape[1], size=before.shape[1])
        changes[i] = after[np.ix_(questions, keys)].mean() - before[np.ix_(questions, draws)].mean()
    return changes


def _spread(table: NDArray[np.float64]) -> float:
    """The standard deviation of column means over that of independent entries of each row."""
    keys = table.shape[1]
    shares = table.mean(axis=1)
    # The unbiased variance of an entry, summed over the questions.
    chance = float((shares * (1.0 - shares)).sum()) * keys / (keys - 1) / len(table) ** 2
    if chance == 0.0:
        return 1.0
    return float(np.sqrt(table.mean(axis=0).var(ddof=1) / chance))


def _by(rows: Sequence[Row], field: str) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[field], []).append(row)
    return groups
