"""Estimating the matrices of a bilinear form from many texts.

``bilinear`` takes a form for any d × d matrix and the rule for a gentle preference. In truth the
form has rank m, R x is scaled to length one, and the rule is a step at T. Here R and S are sought
with all of that, from the singular vectors of the estimated form: what was taken has a score above
T, and of the other sentences of its text a share has. The step is a little softened, so that it
can be climbed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import FloatArray
from hammingmark.watermarks.bilinear.method import beginning_of, matrices_of
from hammingmark.watermarks.bilinear.scores import as_directions
from research.cryptanalysis.bilinear import (
    FormGuess,
    cut,
    learn_form,
    options,
    side_by_side,
    surprise,
)
from research.cryptanalysis.forgery import Scorer

_ENOUGH = 20  # times d: with this many transitions, fitting matrices beats the form
_SLOPE = 3.4  # of the softened step
_PRECISION = 5.0  # of the prior
_BATCH = 100  # sections in a step of the optimiser


@dataclass(frozen=True, slots=True)
class FormFactors:
    """A form by its factors, as in a key.

    Attributes:
        before: R, (m, d).
        after: S, (m, d).
        beginning: what stands before first sentences, (d,).
    """

    before: FloatArray
    after: FloatArray
    beginning: FloatArray

    @classmethod
    def of(cls, key: WatermarkKey) -> FormFactors:
        """The factors of a key."""
        before, after = matrices_of(key)
        return cls(before, after, np.float32(beginning_of(key)[0] @ after))

    def score(self, first: FloatArray, second: FloatArray) -> NDArray[np.float32]:
        """z: (n,), of (n, d) or one for all, (d,)."""
        directions = as_directions(np.float64(np.atleast_2d(first) @ self.before.T))
        scores = (directions * (second @ self.after.T)).sum(axis=-1)
        return np.asarray(scores, np.float32)

    def score_first(self, sentences: FloatArray) -> NDArray[np.float32]:
        """Of sentences (n, d) or (d,) at the beginning of a text: (n,)."""
        scores: NDArray[np.float32] = np.atleast_1d(sentences @ self.beginning)
        return scores


def learn(
    texts: Sequence[FloatArray], *, rank: int, threshold: float, rng: np.random.Generator
) -> Scorer:
    """The best estimate of a key: its matrices if there are enough texts, otherwise the form.

    Args:
        texts: the embeddings of each, (n, d), from its first sentence on.
        rank: m, which is public.
        threshold: T, likewise.
        rng: the dice.
    """
    form = learn_form(texts)
    if sum(len(text) - 1 for text in texts) < _ENOUGH * len(form.form):
        return form
    return refine_factors(texts, form, rank=rank, threshold=threshold, rng=rng)


def refine_factors(
    texts: Sequence[FloatArray],
    form: FormGuess,
    *,
    rank: int,
    threshold: float,
    rng: np.random.Generator,
    steps: int = 400,
    rate: float = 0.005,
) -> FormFactors:
    """R and S near a form, by the likelihood of the choices: Adam with a rate that decays to zero.

    Args:
        texts: as for ``learn``.
        form: where to start.
        rank: as for ``learn``.
        threshold: likewise.
        rng: likewise.
        steps: of the optimiser.
        rate: the greatest step.
    """
    rows, present = side_by_side(cut(texts))
    d = rows.shape[2]
    rank = min(rank, d)  # there are no more singular vectors
    start = _factors(form, rows[present], rank=rank, rng=rng)
    scale = present[:, 1:].sum()
    theta = start.ravel().astype(np.float64)
    speed, square = np.zeros_like(theta), np.zeros_like(theta)
    for step in range(1, steps + 1):
        some = rng.integers(len(rows), size=_BATCH)
        now = np.float32(theta.reshape(2, rank, d))
        slope = _slope(now, rows[some], present[some], threshold=threshold)
        slope = slope / present[some, 1:].sum() + _PRECISION / scale * now
        full = slope.ravel().astype(np.float64)
        speed = 0.9 * speed + 0.1 * full
        square = 0.99 * square + 0.01 * full * full
        pace = rate * 0.5 * (1.0 + np.cos(np.pi * step / steps))
        unbiased = np.sqrt(square / (1.0 - 0.99**step)) + 1e-10
        theta = theta - pace * (speed / (1.0 - 0.9**step)) / unbiased
    before, after = np.float32(theta.reshape(2, rank, d))
    return FormFactors(before, after, form.beginning)


def _factors(
    form: FormGuess, rows: FloatArray, *, rank: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """R and S from the leading singular vectors, scaled so that scores have variance 1."""
    left, values, right = np.linalg.svd(form.form)
    root = np.sqrt(values[:rank])[:, None]
    before, after = root * left.T[:rank], root * right[:rank]
    guess = FormFactors(before, after, form.beginning)
    spread = guess.score(rows, rng.permutation(rows)).std()
    return np.stack([before / before.std(), after / max(float(spread), 1e-6)]).astype(np.float32)


def _slope(
    factors: NDArray[np.float32],
    rows: FloatArray,
    present: NDArray[np.bool_],
    *,
    threshold: float,
) -> NDArray[np.float32]:
    """The gradient (2, m, d) of the summed surprise of sections (N, L, d)."""
    before, after = factors
    m, d = before.shape
    seen = rows[:, :-1] @ before.T
    lengths = np.maximum(np.linalg.norm(seen, axis=-1, keepdims=True), 1e-6)
    directions, following = seen / lengths, rows @ after.T
    scores = directions @ following.transpose(0, 2, 1)
    climbed = np.exp(np.clip(_SLOPE * (scores - threshold), -50.0, 50.0))
    worth = -np.log1p(1.0 / climbed)  # log of the softened step
    _, pull = surprise(worth, options(present), np.arange(rows.shape[1] - 1) + 1)
    pull *= present[:, 1:, None] * _SLOPE / (1.0 + climbed)
    turn = pull @ following
    turn = (turn - (turn * directions).sum(axis=-1, keepdims=True) * directions) / lengths
    along = pull.transpose(0, 2, 1) @ directions
    return np.stack(
        [
            turn.reshape(-1, m).T @ rows[:, :-1].reshape(-1, d),
            along.reshape(-1, m).T @ rows.reshape(-1, d),
        ]
    )
