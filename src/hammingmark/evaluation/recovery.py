"""What an attacker learns of a key from many texts that it marked.

Let x and y be neighbours. Of the pairs that a model would write, the rule keeps those with

    Σ_i sign(r_i·x) sign(r_i·y) >= 2T - m

so that E[y xᵀ], symmetrised, has a surplus along every r_i r_iᵀ. The surplus is seen against pairs
of the same texts that no rule tied together: sentences a few places apart share the topic and
hardly any of the mark. (Unmarked texts on other topics are a bad contrast: the topics differ by
more than the mark does.) The top m eigenvectors of the whitened surplus estimate the span of R.
Inside it, sums of signs single out the planes themselves: gradient ascent on the likelihood of
"neighbours or not" finds them.

Everything here works on embeddings, which anyone has who has the encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hammingmark.core.soft import agreement
from hammingmark.errors import InputError
from hammingmark.pipeline.compare import compare
from hammingmark.protocols import FloatArray, SentenceWatermark
from hammingmark.records import StatisticName

Choose = Callable[[FloatArray, FloatArray], int]
"""From the sentence before (d,) and candidates (c, d) in drawing order to the one to take."""

_BLOCK = 8192  # pairs that are multiplied at a time
_LEARNED = 1.0  # the softness at which refined planes are to be read


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of sentences, as rows of one table.

    Attributes:
        rows: embeddings, (N, d).
        before: rows of the first sentences, (n,).
        after: rows of the second, (n,).
    """

    rows: FloatArray
    before: NDArray[np.intp]
    after: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.before)


def neighbours(texts: Sequence[FloatArray]) -> Pairs:
    """Adjacent sentences of texts, each (n, d)."""
    return _at_distances(texts, (1,))


def strangers(texts: Sequence[FloatArray], *, distances: Sequence[int] = (3, 4, 5)) -> Pairs:
    """Sentences of one text that stand some places apart: the topic without the mark."""
    return _at_distances(texts, distances)


def estimate_span(
    marked: Pairs, natural: Pairs, m: int, *, ridge: float = 0.3
) -> NDArray[np.float64]:
    """An estimate of the subspace that the m secret planes span.

    Args:
        marked: neighbours in marked texts.
        natural: pairs that no rule tied together: ``strangers`` of the same texts, or neighbours
            in unmarked texts of the same prompts.
        m: how many directions to give back.
        ridge: added to the natural second moments before whitening, in units of their mean.

    Returns:
        (m, d), strongest first; rows have unit variance over natural sentences, about.
    """
    if not 1 <= m <= marked.rows.shape[1]:
        raise InputError(f"A span has from 1 to d directions, not {m}.")
    if not len(marked) or not len(natural):
        raise InputError("Both kinds of pairs are needed to see a difference.")
    whiten = _inverse_root(second_moment(natural.rows), ridge=ridge)
    surplus = whiten @ (_cross_moment(marked) - _cross_moment(natural)) @ whiten
    _, vectors = np.linalg.eigh(surplus)
    span: NDArray[np.float64] = vectors[:, ::-1][:, :m].T @ whiten
    return span


def span_overlap(
    estimate: NDArray[np.floating],
    planes: NDArray[np.floating],
    *,
    moments: NDArray[np.float64] | None = None,
) -> float:
    """Mean squared principal cosine of two spans: 1 if equal, about k/d by chance.

    Args:
        estimate: (k, d).
        planes: (m, d), the true ones.
        moments: second moments of natural sentences, (d, d). With them the cosines are canonical
            correlations of the projections, so that a direction in which no sentence differs
            does not count.
    """
    root = np.eye(planes.shape[1]) if moments is None else _root(moments)
    first = np.linalg.qr((estimate @ root).T)[0]
    second = np.linalg.qr((planes @ root).T)[0]
    cosines = np.linalg.svd(first.T @ second, compute_uv=False)
    return float((cosines**2).sum() / planes.shape[0])


def refine_planes(
    marked: Pairs,
    natural: Pairs,
    m: int,
    *,
    rng: np.random.Generator,
    restarts: int = 4,
    steps: int = 400,
    wide: int = 2,
) -> FloatArray:
    """The planes themselves, by the likelihood of "neighbours of a marked text, or not".

    The log-odds are b + w Σ_i tanh(u_i·x) tanh(u_i·y). The planes start at random inside the
    estimated span of m directions and may move within one ``wide`` times as wide; the best of
    some restarts by the likelihood wins.

    Args:
        marked: as for ``estimate_span``.
        natural: likewise.
        m: how many planes.
        rng: the dice.
        restarts: how many random starts.
        steps: of the optimiser, a start.
        wide: how many times m directions the planes may use.

    Returns:
        (m, d), scaled for ``agreement`` with softness 1. Their order and signs mean nothing.
    """
    frame = estimate_span(marked, natural, min(wide * m, marked.rows.shape[1]))
    yes, no = _reduced(marked, frame), _reduced(natural, frame)
    best: tuple[float, FloatArray] | None = None
    for _ in range(restarts):
        start = np.zeros((m, len(frame)))
        start[:, :m] = np.linalg.qr(rng.standard_normal((m, m)))[0]
        fitted, loss = _fit(start.astype(np.float32), yes, no, rng=rng, steps=steps)
        if best is None or loss < best[0]:
            best = (loss, fitted)
    assert best is not None
    return (best[1] @ frame).astype(np.float32)


def compose(
    pools: Sequence[FloatArray],
    choose: Choose,
    *,
    texts: int,
    sentences: int,
    tries: int,
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Write texts by drawing sentences of one topic: marked, forged or natural, as ``choose`` says.

    As far as embeddings go this is the law of generation: candidates come as the topic gives
    them, and the rule takes one. No sentence is used twice in a text.

    Args:
        pools: for each topic its sentences, (n, d); topics take turns.
        choose: takes one of the candidates.
        texts: how many to write.
        sentences: of each.
        tries: candidates drawn for a sentence.
        rng: the dice.
    """
    written = []
    for number in range(texts):
        pool = pools[number % len(pools)]
        if len(pool) < sentences:
            raise InputError(f"A topic of {len(pool)} sentences is too small for {sentences}.")
        rows = [int(rng.integers(len(pool)))]
        while len(rows) < sentences:
            drawn = rng.integers(len(pool), size=tries)
            fresh = drawn[~np.isin(drawn, rows)]
            if len(fresh):
                rows.append(int(fresh[choose(pool[rows[-1]], pool[fresh])]))
        written.append(pool[rows])
    return written


def by_rule(watermark: SentenceWatermark) -> Choose:
    """The owner's choice: the first candidate that satisfies the rule, else the nearest."""
    return lambda before, candidates: watermark.choose(before, candidates).index


def by_planes(planes: FloatArray, *, softness: float = _LEARNED) -> Choose:
    """The forger's choice: the candidate that agrees best under planes that may be wrong."""

    def choose(before: FloatArray, candidates: FloatArray) -> int:
        scores = agreement(planes @ before, candidates @ planes.T, softness=softness)
        return int(np.argmax(scores))

    return choose


def by_nothing(before: FloatArray, candidates: FloatArray) -> int:
    """An author without a key: the first candidate."""
    return 0


def forge(
    planes: FloatArray,
    pools: Sequence[FloatArray],
    *,
    texts: int,
    sentences: int,
    rng: np.random.Generator,
    tries: int = 16,
    softness: float = _LEARNED,
) -> list[FloatArray]:
    """Texts that somebody writes with estimated planes as if they were the key."""
    choose = by_planes(planes, softness=softness)
    return compose(pools, choose, texts=texts, sentences=sentences, tries=tries, rng=rng)


def p_value(
    text: FloatArray,
    watermark: SentenceWatermark,
    *,
    statistic: StatisticName = "margin",
    references: int = 999,
) -> float:
    """The true detector's p-value of a text's embeddings (n, d)."""
    return compare(watermark.trial(text, statistic=statistic), limit=references).p_value


def pass_rate(
    texts: Sequence[FloatArray],
    watermark: SentenceWatermark,
    *,
    level: float = 0.01,
    references: int = 999,
) -> float:
    """The share of texts that the true detector takes for marked."""
    found = [p_value(text, watermark, references=references) <= level for text in texts]
    return float(np.mean(found))


def removal_path(
    text: FloatArray,
    versions: FloatArray,
    *,
    planes: FloatArray | None,
    rng: np.random.Generator,
    softness: float = _LEARNED,
) -> Iterator[FloatArray]:
    """The text after 0, 1, 2, ... n sentences were put into other words.

    With planes, each step takes the sentence and the version that lower the agreement of
    neighbours most; without, both are drawn blindly.

    Args:
        text: (n, d).
        versions: of each sentence, (n, v, d).
        planes: what the attacker takes for the key, (m, d), or None.
        rng: the dice.
        softness: at which the planes are read.
    """
    now = text.copy()
    left = list(range(len(text)))
    yield now.copy()
    while left:
        if planes is None:
            place = int(rng.choice(left))
            version = int(rng.integers(versions.shape[1]))
        else:
            gains = [_loss_of(now, versions[i], i, planes, softness) for i in left]
            best = int(np.argmin([float(gain.min()) for gain in gains]))
            place, version = left[best], int(gains[best].argmin())
        now[place] = versions[place, version]
        left.remove(place)
        yield now.copy()


def changes_needed(
    path: Iterator[FloatArray],
    watermark: SentenceWatermark,
    *,
    level: float = 0.01,
    references: int = 999,
) -> int | None:
    """How many changes it takes until the true detector finds no mark; None if all are not enough.

    0 says that it found none to begin with.
    """
    for changes, text in enumerate(path):
        if p_value(text, watermark, references=references) > level:
            return changes
    return None


def second_moment(rows: FloatArray) -> NDArray[np.float64]:
    """E[x xᵀ] of rows (N, d)."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for first in range(0, len(rows), _BLOCK):
        part = rows[first : first + _BLOCK]
        total += part.T @ part
    return total / max(1, len(rows))


def _at_distances(texts: Sequence[FloatArray], distances: Sequence[int]) -> Pairs:
    before, after = [], []
    start = 0
    for text in texts:
        for distance in distances:
            first = np.arange(start, start + max(0, len(text) - distance))
            before.append(first)
            after.append(first + distance)
        start += len(text)
    if not before:
        raise InputError("At least one text is needed.")
    return Pairs(np.concatenate(texts), np.concatenate(before), np.concatenate(after))


def _cross_moment(pairs: Pairs) -> NDArray[np.float64]:
    """E[y xᵀ], symmetrised: (d, d)."""
    total = np.zeros((pairs.rows.shape[1], pairs.rows.shape[1]))
    for first in range(0, len(pairs), _BLOCK):
        part = slice(first, first + _BLOCK)
        total += pairs.rows[pairs.after[part]].T @ pairs.rows[pairs.before[part]]
    mean: NDArray[np.float64] = (total + total.T) / (2 * len(pairs))
    return mean


def _inverse_root(moments: NDArray[np.float64], *, ridge: float) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(moments)
    root: NDArray[np.float64] = (vectors / np.sqrt(values + ridge * values.mean())) @ vectors.T
    return root


def _root(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(moments)
    root: NDArray[np.float64] = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def _loss_of(
    now: FloatArray, versions: FloatArray, place: int, planes: FloatArray, softness: float
) -> NDArray[np.float32]:
    """By how much each version (v, d) in a place would raise the agreement with its neighbours."""
    change = np.zeros(len(versions), np.float32)
    for beside in (place - 1, place + 1):
        if 0 <= beside < len(now):
            other = planes @ now[beside]
            change += agreement(other, versions @ planes.T, softness=softness)
            change -= agreement(other, planes @ now[place], softness=softness)
    return change


def _reduced(pairs: Pairs, frame: NDArray[np.float64]) -> Pairs:
    """The same pairs in the coordinates of a frame (k, d)."""
    return Pairs(pairs.rows @ frame.T.astype(np.float32), pairs.before, pairs.after)


def _draw(pairs: Pairs, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    which = rng.integers(len(pairs), size=count)
    return pairs.rows[pairs.before[which]], pairs.rows[pairs.after[which]]


def _fit(
    planes: FloatArray,
    yes: Pairs,
    no: Pairs,
    *,
    rng: np.random.Generator,
    steps: int,
    rate: float = 0.03,
    batch: int = 1024,
) -> tuple[FloatArray, float]:
    """Adam with a rate that falls to nothing; gives the planes and the loss over the last tenth."""
    m, width = planes.shape
    # Planes, then the offset b and the weight w, in one vector that the optimiser moves.
    theta = np.concatenate([planes.ravel(), [-0.3, 0.3]])
    speed, square = np.zeros_like(theta), np.zeros_like(theta)
    sign = np.repeat([1.0, -1.0], batch)
    recent: list[float] = []
    for step in range(1, steps + 1):
        u = theta[:-2].reshape(m, width).astype(np.float32)
        offset, weight = theta[-2:]
        (a, b), (c, d) = _draw(yes, batch, rng), _draw(no, batch, rng)
        x, y = np.concatenate([a, c]), np.concatenate([b, d])
        f, g = np.tanh(x @ u.T), np.tanh(y @ u.T)
        score = (f * g).sum(axis=1)
        margin = sign * (offset + weight * score)
        recent.append(float(np.logaddexp(0.0, -margin).mean()))
        slope = -sign / (1.0 + np.exp(margin)) / len(margin)
        steer = (slope * weight)[:, None].astype(np.float32)
        gradient = (steer * (1 - f * f) * g).T @ x + (steer * (1 - g * g) * f).T @ y
        full = np.concatenate([gradient.ravel(), [slope.sum(), (slope * score).sum()]])
        speed = 0.9 * speed + 0.1 * full
        square = 0.99 * square + 0.01 * full * full
        pace = rate * 0.5 * (1.0 + np.cos(np.pi * step / steps))
        unbiased = np.sqrt(square / (1.0 - 0.99**step)) + 1e-8
        theta = theta - pace * (speed / (1.0 - 0.9**step)) / unbiased
    tail = recent[-max(1, steps // 10) :]
    return theta[:-2].reshape(m, width).astype(np.float32), float(np.mean(tail))
