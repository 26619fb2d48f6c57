"""Estimating a key from many texts that it marked.

Let x and y be neighbours. Of the pairs that a model would write, the rule keeps those with

    Σ_i sign(r_i·x) sign(r_i·y) >= 2T - m

so that E[y xᵀ], symmetrised, has a surplus along every r_i r_iᵀ. The surplus is seen against pairs
of the same texts that no rule tied together: sentences a few places apart share the topic and
hardly any of the mark. (Unmarked texts on other topics are a bad contrast: the topics differ by
more than the mark does.) The top m eigenvectors of the whitened surplus estimate the span of R.
Around it, sums of signs single out the planes themselves: gradient ascent on the likelihood of
"neighbours or not" finds them, once there are texts enough.

For a key that compares residuals, f of the next sentence stands in the place of y. E[f xᵀ] itself
is not symmetric, but the surplus nearly is: symmetrising keeps it, and half of the noise goes.

Everything here works on embeddings, which anyone has who has the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import FloatArray
from hammingmark.watermarks._shared.similarity import pair_cosines
from hammingmark.watermarks.hamming import HammingConfig, planes_of
from hammingmark.watermarks.hamming.pairs import residual_of
from hammingmark.watermarks.hamming.soft import agreement

_BLOCK = 8192  # pairs that are multiplied at a time
_FAR = tuple(sign * distance for distance in range(3, 10) for sign in (1, -1))
_RIDGE = 10.0  # times d / n, in units of the mean second moment
_ENOUGH = 20  # times d: with this many transitions, fitting planes beats their span
_STRAIGHT = 10.0  # a softness at which tanh is a straight line


@dataclass(frozen=True, slots=True)
class Guess:
    """An estimate of a key.

    Attributes:
        planes: (m, d).
        residual: whether the residual of the second sentence is compared, or the whole of it.
        softness: at which the planes are to be read.
    """

    planes: FloatArray
    residual: bool
    softness: float = 1.0

    @classmethod
    def of(cls, key: WatermarkKey) -> Guess:
        """The planes of a key."""
        assert isinstance(key.config, HammingConfig)
        return cls(planes_of(key), key.config.residual, key.config.softness)

    def score(self, first: FloatArray, second: FloatArray) -> NDArray[np.float32]:
        """How well second sentences agree with first ones: (n,).

        Args:
            first: (n, d), or one for all, (d,).
            second: likewise.
        """
        first, second = np.atleast_2d(first), np.atleast_2d(second)
        before, after = first @ self.planes.T, second @ self.planes.T
        if self.residual:
            after = residual_of(before, after, pair_cosines(first, second))
        return agreement(before, after, softness=self.softness)

    def score_first(self, sentences: FloatArray) -> NDArray[np.float32]:
        """The same for all (n, d): the method has no rule for first sentences."""
        return np.zeros(len(np.atleast_2d(sentences)), np.float32)


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

    def sides(self, part: slice, *, residual: bool) -> tuple[FloatArray, FloatArray]:
        """The inputs of a key's rule for some pairs: first sentences, and second ones or f."""
        first, second = self.rows[self.before[part]], self.rows[self.after[part]]
        if residual:
            second = residual_of(first, second, pair_cosines(first, second))
        return first, second


def neighbours(texts: Sequence[FloatArray]) -> Pairs:
    """Adjacent sentences of texts, each (n, d)."""
    return _at_distances(texts, (1,))


def strangers(texts: Sequence[FloatArray], *, distances: Sequence[int] = _FAR) -> Pairs:
    """Sentences of one text at a distance, in either order: they share the topic, not the mark."""
    return _at_distances(texts, distances)


def learn(
    marked: Pairs, natural: Pairs, m: int, *, residual: bool, rng: np.random.Generator
) -> Guess:
    """The best estimate of a key: the planes if there are enough texts, otherwise their span.

    Args:
        marked: neighbours in marked texts.
        natural: pairs that no rule tied together: ``strangers`` of the same texts, or neighbours
            in unmarked texts of the same prompts.
        m: how many planes the key has.
        residual: whether the key compares residuals.
        rng: the dice.
    """
    if len(marked) < _ENOUGH * marked.rows.shape[1]:
        return estimate_span(marked, natural, m, residual=residual)
    return refine_planes(marked, natural, m, residual=residual, rng=rng)


def estimate_span(marked: Pairs, natural: Pairs, m: int, *, residual: bool = False) -> Guess:
    """An estimate of the subspace that the secret planes span; arguments as for ``learn``.

    Returns:
        m directions, strongest first and longest, to be read as a bilinear form: it scores pairs
        without knowing the planes.
    """
    frame, strength = _frame(marked, natural, m, residual=residual)
    weight = np.float32(np.maximum(strength, 0.0) / max(strength[0], 1e-12))[:, None]
    return Guess(weight * frame, residual, softness=_STRAIGHT)


def span_overlap(
    estimate: NDArray[np.floating],
    planes: NDArray[np.floating],
    *,
    moments: NDArray[np.float64] | None = None,
) -> float:
    """Mean squared principal cosine of two spans: 1 if equal, about k/d for a random span.

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
    residual: bool = False,
    restarts: int = 4,
    steps: int = 400,
    wide: int = 2,
) -> Guess:
    """The planes themselves, by the likelihood of "neighbours of a marked text, or not".

    The log-odds are b + w Σ_i tanh(u_i·x) tanh(u_i·y), with f for y if residuals are compared. The
    planes start at random inside the estimated span of m directions and may move within one
    ``wide`` times as wide; the best of some restarts by the likelihood wins.

    Args:
        marked: as for ``learn``.
        natural: likewise.
        m: likewise.
        rng: the dice.
        residual: likewise.
        restarts: how many random starts.
        steps: of the optimiser, a start.
        wide: how many times m directions the planes may use.

    Returns:
        Planes to be read at softness 1. Their order and their signs mean nothing.
    """
    frame, _ = _frame(marked, natural, min(wide * m, marked.rows.shape[1]), residual=residual)
    yes, no = (_reduced(pairs, frame, residual=residual) for pairs in (marked, natural))
    best: tuple[float, FloatArray] | None = None
    for _ in range(restarts):
        start = np.zeros((m, len(frame)), np.float32)
        start[:, :m] = np.linalg.qr(rng.standard_normal((m, m)))[0]
        fitted, loss = _fit(start, yes, no, rng=rng, steps=steps)
        if best is None or loss < best[0]:
            best = (loss, fitted)
    assert best is not None
    return Guess(best[1] @ frame, residual)


def new_moment(pairs: Pairs) -> NDArray[np.float64]:
    """E[f fᵀ] of pairs: (d, d)."""
    total = np.zeros((pairs.rows.shape[1], pairs.rows.shape[1]))
    for _, f in _blocks(pairs, residual=True):
        total += f.T @ f
    return total / max(1, len(pairs))


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
            first = np.arange(max(0, -distance), len(text) - max(0, distance)) + start
            before.append(first)
            after.append(first + distance)
        start += len(text)
    if not before:
        raise InputError("At least one text is needed.")
    return Pairs(np.concatenate(texts), np.concatenate(before), np.concatenate(after))


def _frame(
    marked: Pairs, natural: Pairs, size: int, *, residual: bool
) -> tuple[FloatArray, NDArray[np.float64]]:
    """Directions of the greatest surplus, of variance 1 or less, (size, d), and their strengths."""
    d = marked.rows.shape[1]
    if not 1 <= size <= d:
        raise InputError(f"A span has from 1 to d directions, not {size}.")
    if not len(marked) or not len(natural):
        raise InputError("Both kinds of pairs are needed to see a difference.")
    surplus = _cross_moment(marked, residual=residual) - _cross_moment(natural, residual=residual)
    moments = new_moment(natural) if residual else second_moment(natural.rows)
    # With fewer pairs, directions in which sentences hardly differ are estimated less reliably.
    whiten = _inverse_root(moments, ridge=_RIDGE * d / len(marked))
    values, vectors = np.linalg.eigh(whiten @ (surplus + surplus.T) @ whiten)
    span = (vectors[:, ::-1][:, :size].T @ whiten).astype(np.float32)
    return span, values[::-1][:size]


def _blocks(pairs: Pairs, *, residual: bool) -> Iterator[tuple[FloatArray, FloatArray]]:
    for first in range(0, len(pairs), _BLOCK):
        yield pairs.sides(slice(first, first + _BLOCK), residual=residual)


def _cross_moment(pairs: Pairs, *, residual: bool) -> NDArray[np.float64]:
    """E[y xᵀ], or E[f xᵀ]: (d, d)."""
    total = np.zeros((pairs.rows.shape[1], pairs.rows.shape[1]))
    for x, y in _blocks(pairs, residual=residual):
        total += y.T @ x
    return total / len(pairs)


def _inverse_root(moments: NDArray[np.float64], *, ridge: float) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(moments)
    root: NDArray[np.float64] = (vectors / np.sqrt(values + ridge * values.mean())) @ vectors.T
    return root


def _root(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(moments)
    root: NDArray[np.float64] = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def _reduced(pairs: Pairs, frame: FloatArray, *, residual: bool) -> tuple[FloatArray, FloatArray]:
    """The inputs of a key's rule in the coordinates of a frame (k, d): two arrays (n, k)."""
    seen = [(x @ frame.T, y @ frame.T) for x, y in _blocks(pairs, residual=residual)]
    first, second = (np.concatenate(side) for side in zip(*seen, strict=True))
    return first, second


def _fit(
    planes: FloatArray,
    yes: tuple[FloatArray, FloatArray],
    no: tuple[FloatArray, FloatArray],
    *,
    rng: np.random.Generator,
    steps: int,
    rate: float = 0.03,
    batch: int = 1024,
) -> tuple[FloatArray, float]:
    """Adam with a rate that decays to zero; returns the planes and the mean loss of the last tenth.

    Args:
        planes: where to start, (m, k).
        yes: both sides of pairs that are neighbours, (n, k) each.
        no: of pairs that are not.
        rng: the dice.
        steps: how many.
        rate: the greatest step.
        batch: pairs of each kind in a step.
    """
    # Planes, then the offset b and the weight w, in one vector that the optimiser moves.
    theta = np.concatenate([planes.ravel(), [-0.3, 0.3]])
    speed, square = np.zeros_like(theta), np.zeros_like(theta)
    sign = np.repeat([1.0, -1.0], batch)
    recent: list[float] = []
    for step in range(1, steps + 1):
        now = theta[:-2].reshape(planes.shape).astype(np.float32)
        offset, weight = theta[-2:]
        drawn = [rng.integers(len(kind[0]), size=batch) for kind in (yes, no)]
        x, y = (np.concatenate([a[drawn[0]], b[drawn[1]]]) for a, b in zip(yes, no, strict=True))
        f, g = np.tanh(x @ now.T), np.tanh(y @ now.T)
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
    return theta[:-2].reshape(planes.shape).astype(np.float32), float(np.mean(tail))
