"""How well scores tell marked from unmarked texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from hammingmark.errors import InputError
from hammingmark.records import Generation
from hammingmark.text.words import words_of

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


def account(generations: Sequence[Generation]) -> dict[str, float]:
    """Samples, tokens and refusals a sentence, and the shares accepted and spent on embedding."""
    costs = [generation.cost for generation in generations]
    sentences = max(1, sum(len(generation.sentences) for generation in generations))
    tried = sum(cost.tried for cost in costs)
    seconds = sum(cost.seconds for cost in costs)
    return {
        "samples": sum(cost.candidates for cost in costs) / sentences,
        "tokens": sum(cost.drawn_tokens for cost in costs) / sentences,
        "drawn_over_emitted": sum(cost.drawn_tokens for cost in costs)
        / max(1, sum(cost.tokens for cost in costs)),
        "spare_tokens": sum(cost.spare_tokens for cost in costs) / sentences,
        "acceptance": sum(cost.passed for cost in costs) / tried if tried else 1.0,
        "fallback": sum(cost.fallbacks for cost in costs) / sentences,
        "repeats": sum(cost.repeats for cost in costs) / sentences,
        "misfits": sum(cost.misfits for cost in costs) / sentences,
        "encoder_share": sum(cost.encoder_seconds for cost in costs) / seconds if seconds else 0.0,
    }


def near_copies(texts: Sequence[Sequence[str]], *, most: float = 0.5, n: int = 4) -> float:
    """The share of sentences of which more than ``most`` of the runs of n words came before.

    Args:
        texts: each as its sentences.
        most: what a sentence may repeat without counting.
        n: words in a run; a sentence with fewer is a copy if it stood there before as it is.
    """
    copied = total = 0
    for sentences in texts:
        said: set[tuple[str, ...]] = set()
        for sentence in sentences:
            words = [word.lower() for word in words_of(sentence)]
            size = min(n, len(words))
            runs = {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}
            copied += bool(words) and len(runs & said) > most * len(runs)
            total += 1
            said |= runs
    return copied / total if total else 0.0


def mean_repetition(texts: Sequence[str], *, n: int = 4) -> float:
    """rep-n: the share of runs of n words that their text has said before; 0 if there are none.

    Every run counts once, so that longer texts count for more.
    """
    if n < 1:
        raise InputError(f"A run has at least 1 word, not {n}.")
    again = total = 0
    for text in texts:
        words = [word.lower() for word in words_of(text)]
        runs = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        again += len(runs) - len(set(runs))
        total += len(runs)
    return again / total if total else 0.0
