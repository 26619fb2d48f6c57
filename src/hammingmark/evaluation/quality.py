"""The quality of texts: repetition, and perplexity under a second model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from hammingmark.errors import InputError
from hammingmark.evaluation.metrics import Interval, bootstrap
from hammingmark.evaluation.progress import Progress, silent
from hammingmark.evaluation.rows import Row, complete
from hammingmark.pretrained import load
from hammingmark.protocols import Splitter
from hammingmark.text.words import split_words


class LikelihoodModel(Protocol):
    """A language model that measures the likelihood of a text.

    Attributes:
        name: its name, including the runtime.
    """

    name: str

    def negative_log_likelihood(self, text: str, *, prompt: str) -> tuple[float, int]:
        """The loss of a text after its prompt, in nats, and the number of its tokens."""


class PretrainedLikelihood:
    """Negative log-likelihoods by a causal language model.

    Args:
        source: a folder, a name on the hub, or a GGUF file.
        device: by default CUDA if it is available.
        dtype: ``"bfloat16"`` is faster on CUDA.
        separator: put between prompt and text; its tokens are not counted.
        max_tokens: of prompt and text together; the rest of a text is not counted.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        device: str | None = None,
        dtype: str = "float32",
        separator: str = " ",
        max_tokens: int = 1024,
    ) -> None:
        self.name = f"transformers:{Path(source).name}"
        self._loaded = load("AutoModelForCausalLM", source, device=device, dtype=dtype)
        self._separator = separator
        self._max_tokens = max_tokens

    def negative_log_likelihood(self, text: str, *, prompt: str) -> tuple[float, int]:
        """The negative log-likelihood of a text after its prompt, in nats, and its tokens' number.

        Without a prompt, the first token of the text is not counted.
        """
        torch, tokenizer = self._loaded.torch, self._loaded.tokenizer
        prompt_tokens = tokenizer(prompt + self._separator).input_ids if prompt else []
        tokens = tokenizer(text).input_ids
        ids = torch.tensor(
            [(prompt_tokens + tokens)[: self._max_tokens]], device=self._loaded.device
        )
        first = max(1, len(prompt_tokens))
        if ids.shape[1] <= first:
            return 0.0, 0
        with torch.inference_mode():
            logits = self._loaded.model(ids).logits[0, first - 1 : -1].float()
        targets = ids[0, first:]
        loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        return float(loss), len(targets)


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
        path: the file of the rows.
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
        rounds: the number of resamples.

    Raises:
        InputError: there is no token.
    """
    counts = np.array([[row["loss"], row["model_tokens"]] for row in rows]).reshape(-1, 2)
    if not counts[:, 1].sum():
        raise InputError("There is no token to compute a perplexity from.")

    def measure(indices: np.ndarray) -> float:
        loss, tokens = counts[np.asarray(indices, np.intp)].sum(axis=0)
        return float(np.exp(loss / max(1.0, tokens)))

    indices = np.arange(len(counts))
    low, high = bootstrap(measure, indices, rng=rng, rounds=rounds)
    return Interval(measure(indices), low, high)


def reading_quality(texts: Sequence[str], splitter: Splitter) -> dict[str, float]:
    """rep-4 and the share of near copies of sentences."""
    sentences = [splitter.split(text).carrying for text in texts]
    return {"rep-4": mean_repetition(texts), "near_copies": near_copies(sentences)}


def near_copies(texts: Sequence[Sequence[str]], *, most: float = 0.5, n: int = 4) -> float:
    """The share of sentences that repeat more than a share ``most`` of their runs of n words.

    Args:
        texts: the sentences of each text.
        most: the share of a sentence that may repeat earlier sentences.
        n: words in a run; a shorter sentence is a copy if it occurred before as a whole.
    """
    copied = total = 0
    for sentences in texts:
        earlier: set[tuple[str, ...]] = set()
        for sentence in sentences:
            words = [word.lower() for word in split_words(sentence)]
            size = min(n, len(words))
            runs = {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}
            copied += bool(words) and len(runs & earlier) > most * len(runs)
            total += 1
            earlier |= runs
    return copied / total if total else 0.0


def mean_repetition(texts: Sequence[str], *, n: int = 4) -> float:
    """rep-n: the share of runs of n words that occur earlier in their text; 0 without runs.

    Every run has equal weight, so longer texts weigh more.
    """
    if n < 1:
        raise InputError(f"n must be at least 1, not {n}.")
    repeated = total = 0
    for text in texts:
        words = [word.lower() for word in split_words(text)]
        runs = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        repeated += len(runs) - len(set(runs))
        total += len(runs)
    return repeated / total if total else 0.0
