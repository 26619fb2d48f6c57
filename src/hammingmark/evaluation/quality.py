"""How texts read: what they repeat, and their perplexity under a second model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from hammingmark.errors import InputError
from hammingmark.evaluation.metrics import Interval, bootstrap
from hammingmark.evaluation.progress import Progress, silent
from hammingmark.evaluation.rows import Row, complete
from hammingmark.protocols import Splitter
from hammingmark.text.words import split_words


class LikelihoodModel(Protocol):
    """A language model that says how likely a text is.

    Attributes:
        name: what it is called, its runtime included.
    """

    name: str

    def negative_log_likelihood(self, text: str, *, prompt: str) -> tuple[float, int]:
        """Of a text after its prompt, in nats, and the number of its tokens."""


def measure_likelihood(
    texts: Sequence[Row],
    model: LikelihoodModel,
    *,
    path: Path | None = None,
    progress: Progress = silent,
) -> list[Row]:
    """The negative log-likelihood of each text, and its number of tokens.

    Args:
        texts: rows with ``prompt`` and ``text``.
        model: a model other than the one that wrote them.
        path: where rows are kept.
        progress: counts texts.
    """

    def make(first: int, sources: Sequence[Row]) -> list[Row]:
        rows = []
        for source in sources:
            loss, tokens = model.negative_log_likelihood(source["text"], prompt=source["prompt"])
            rows.append({"id": source.get("id"), "loss": loss, "model_tokens": tokens})
        return rows

    run = {"stage": "likelihood", "model": model.name}
    return complete(texts, run=run, make=make, path=path, progress=progress, what="texts read")


def perplexity(rows: Sequence[Row], *, rng: np.random.Generator, rounds: int = 400) -> Interval:
    """exp of the mean negative log-likelihood over all tokens, with an interval over texts.

    Args:
        rows: of `measure_likelihood`.
        rng: draws the resamples.
        rounds: how many.

    Raises:
        InputError: there is no token.
    """
    counts = np.array([[row["loss"], row["model_tokens"]] for row in rows]).reshape(-1, 2)
    if not counts[:, 1].sum():
        raise InputError("There is no token to compute a perplexity of.")

    def of(places: np.ndarray) -> float:
        loss, tokens = counts[np.asarray(places, np.intp)].sum(axis=0)
        return float(np.exp(loss / max(1.0, tokens)))

    places = np.arange(len(counts))
    low, high = bootstrap(of, places, rng=rng, rounds=rounds)
    return Interval(of(places), low, high)


def reading_quality(texts: Sequence[str], splitter: Splitter) -> dict[str, float]:
    """rep-4 and the share of near copies of sentences."""
    sentences = [splitter.split(text).carrying for text in texts]
    return {"rep-4": mean_repetition(texts), "near_copies": near_copies(sentences)}


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
            words = [word.lower() for word in split_words(sentence)]
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
        words = [word.lower() for word in split_words(text)]
        runs = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        again += len(runs) - len(set(runs))
        total += len(runs)
    return again / total if total else 0.0
