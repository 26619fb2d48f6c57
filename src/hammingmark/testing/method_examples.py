"""Configurations, keys and texts on which the checks of methods run.

Texts are random: embeddings at some similarity for a method that marks sentences, tokens for one
that marks tokens, and tokens with changing contexts for one that uses contexts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.config import (
    ContextConfig,
    EncoderId,
    MethodConfig,
    SentenceConfig,
    TokenizerId,
)
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import (
    ScoredText,
    SentenceWatermark,
    SignificanceTest,
    TokenWatermark,
    Watermark,
)
from hammingmark.records import DecodingStep
from hammingmark.text.context_tokens import with_contexts

DIMENSION = 48
VOCABULARY = 400
CONTEXT = 4  # tokens between changes of the context


def examples_of(method: type[Any]) -> dict[str, MethodConfig]:
    """The configurations that a method supplies, for a made-up encoder and tokenizer."""
    encoder = EncoderId("test", "ab" * 32, DIMENSION)
    tokenizer = TokenizerId("test", "ab" * 32, VOCABULARY)
    if issubclass(method.Config, SentenceConfig):
        return dict(method.examples(encoder))
    if issubclass(method.Config, ContextConfig):
        return dict(method.examples(tokenizer, encoder))
    return dict(method.examples(tokenizer))


def under(method: type[Any], config: MethodConfig, rng: np.random.Generator) -> Watermark:
    """The method under a new key."""
    watermark: Watermark = method(WatermarkKey(Secret(rng.bytes(32)), config))
    return watermark


def sentence_mark(watermark: Watermark) -> SentenceWatermark:
    """The method as a watermark of sentences."""
    mark = watermark.capabilities.sentences
    assert mark is not None, "its capabilities do not declare that it marks sentences"
    return mark


def token_mark(watermark: Watermark) -> TokenWatermark:
    """The method as a watermark of tokens."""
    mark = watermark.capabilities.tokens
    assert mark is not None, "its capabilities do not declare that it marks tokens"
    return mark


def unmarked(config: MethodConfig, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """A text of n units that is independent of every key."""
    if isinstance(config, SentenceConfig):
        return embeddings_of_text(n, rng)
    # Some texts repeat few tokens.
    tokens = rng.integers(VOCABULARY if rng.uniform() < 0.7 else 4, size=n)
    return in_contexts(tokens, rng) if isinstance(config, ContextConfig) else tokens


def in_contexts(tokens: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
    """Tokens with changing contexts; the first two have none."""
    numbers = (np.arange(len(tokens)) - 2) // CONTEXT
    return with_contexts(tokens, embeddings_of_text(len(tokens), rng), np.maximum(numbers, -1))


def embeddings_of_text(n: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Unit rows (n, d), each at about the same cosine to the preceding row."""
    rho = float(rng.uniform(-0.2, 0.9))
    rows = [near(np.zeros(DIMENSION), 0.0, 1, rng)[0]]
    while len(rows) < n:
        rows.append(near(rows[-1], rho, 1, rng)[0])
    return np.array(rows[:n], np.float32).reshape(n, DIMENSION)


def marked(watermark: Watermark, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """A text of n units that are all marked, if the watermark can mark them."""
    if watermark.capabilities.sentences:
        return _accepted(watermark.capabilities.sentences, n, rng)
    mark, rule = token_mark(watermark), watermark.capabilities.context
    text = in_contexts(np.zeros(n, np.int64), rng) if rule else None
    tokens: list[int] = []
    while len(tokens) < n:
        context = ([-1] * mark.width + tokens)[len(tokens) :]
        logits = rng.standard_normal((1, VOCABULARY)).astype(np.float32)
        conditions = None
        if rule and text is not None:
            row = text["context"][len(tokens)]
            conditions = rule.condition(row[None]) if row.any() else None
        scores = processed(mark, logits, np.array([context]), conditions)[0]
        shares = np.exp(scores - scores.max(), dtype=np.float64)
        tokens.append(int(rng.choice(VOCABULARY, p=shares / shares.sum())))
    if text is None:
        return np.array(tokens)
    text["token"] = np.array(tokens)
    return text


def processed(
    watermark: TokenWatermark,
    logits: NDArray[np.float32],
    contexts: NDArray[np.int64],
    conditions: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """The logits of all tokens as changed by a method: (B, V) and (B, width) to (B, V).

    A method that works on the distribution gets them sorted, as when a token is drawn. A method
    with conditions gets ``conditions`` (B, s), or zeros.
    """
    import torch

    order = np.argsort(-logits, axis=1, kind="stable")
    sorts = watermark.stage == "distribution"
    tokens = order if sorts else np.arange(logits.shape[1])[None]
    scores = np.take_along_axis(logits, order, axis=1) if sorts else logits
    step_conditions = (
        np.zeros((len(logits), watermark.condition_size), np.float32)
        if conditions is None
        else conditions
    )
    step = DecodingStep(
        torch.from_numpy(tokens),
        torch.from_numpy(contexts.reshape(len(logits), watermark.width)),
        torch.from_numpy(step_conditions),
    )
    changed: NDArray[np.float32] = watermark.process(torch.from_numpy(scores), step).numpy()
    assert changed.shape == scores.shape, "it changes the shape of the logits"
    if sorts:
        unsorted = np.empty_like(changed)
        np.put_along_axis(unsorted, order, changed, axis=1)
        return unsorted
    return changed


def _accepted(
    watermark: SentenceWatermark, n: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """The embeddings (n, d) of sentences that were each accepted after the preceding one.

    A sentence after which hardly any candidate is accepted is removed again.
    """
    rows: list[NDArray[np.float32]] = []
    refused = 0
    for _ in range(100 * n):
        if len(rows) == n:
            return np.array(rows, np.float32)
        previous = rows[-1] if rows else None
        centre = np.zeros(DIMENSION) if previous is None else previous
        candidates = near(centre, 0.5, 16 * watermark.pool, rng)
        choice = watermark.capabilities.rule_at(len(rows)).choose(previous, candidates)
        refused = 0 if choice.accepted else refused + 1
        if choice.accepted:
            rows.append(candidates[choice.index])
        elif rows and refused % 20 == 0:
            rows.pop()
    raise AssertionError("hardly any candidate is accepted, so that no text can be marked")


def score(watermark: Watermark, text: NDArray[Any]) -> ScoredText:
    """Score a text, with samples near the preceding sentence if the method needs samples.

    The same text has the same samples, like those of a model at detection.
    """
    scorer = watermark.capabilities.samples
    if scorer is None:
        return watermark.read(text)
    rng = np.random.default_rng(21)
    samples = [near(before, 0.5, scorer.samples, rng) for before in text[:-1]]
    return scorer.read_sampled(text, samples)


def every_test(watermark: Watermark, text: ScoredText) -> Iterator[tuple[str, SignificanceTest]]:
    """Every test that a method offers for a text."""
    for statistic in watermark.statistics:
        yield statistic, text.test(statistic)
        if text.test_given_topic is not None:
            yield f"{statistic} given the topic", text.test_given_topic(statistic)


def near(
    centre: NDArray[Any], rho: float, count: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Unit rows (count, d) at a cosine of about ``rho`` to a centre (d,)."""
    noise = rng.standard_normal((count, DIMENSION))
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    rows = rho * centre + np.sqrt(1 - rho**2) * noise
    units: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units.astype(np.float32)
