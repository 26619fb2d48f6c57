"""Neighbouring sentences under some keys, as the rule sees them.

A rule may compare a sentence with the residual of the next one: its embedding with that of the
sentence before projected out. With unit embeddings e and e' of two neighbours at cosine ρ, the
residual is

    f = (e' - ρ e) / √(1 - ρ²)

It has length one and stands at right angles to e. Under a Gaussian matrix R the projections of e
and f are therefore independent: each bit of f matches e's with probability 1/2, whatever the
similarity, the topic or the encoder. A rule that compares e with f instead of e' accepts, on
average over keys, the same share of candidates everywhere, whether or not they repeat the last
sentence, and every accepted transition is equally strong evidence.

Projection is linear, so the residual is taken on projections, under any number of keys at once.

Arrays are laid out sentences first, then keys, then bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.watermarks._shared.hashing import hash_bits, match_counts
from hammingmark.watermarks.hamming import theory
from hammingmark.watermarks.hamming.soft import agreement, soft_acceptance

GRID = 4096
"""Steps of the grid of natural match probabilities."""

MIN_RESIDUAL = 1e-6
"""The least 1 - ρ². A sentence nearer to the preceding one is a copy and has no residual; -e is
used instead, so that no rule accepts it."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """How marked text is expected to look at detection.

    A wrong expectation costs only power: the p-value is taken over keys.

    Attributes:
        flip: the probability that an edit turns a match into a mismatch or back, for every bit.
        free: the probability that a transition was never constrained (an insertion, a fallback).
        edited: the probability that a transition's sentences were paraphrased (margin statistic
            only).
        blur: how far paraphrasing moves a projection, in standard deviations; a bit nearer to its
            hyperplane is then unreliable (margin statistic only).
    """

    flip: float = 0.02
    free: float = 0.05
    edited: float = 0.5
    blur: float = 0.2

    def __post_init__(self) -> None:
        if not (0.0 < self.flip < 0.5 and 0.0 <= self.free < 1.0 and 0.0 <= self.edited <= 1.0):
            raise InputError(
                "An alternative needs 0 < flip < 1/2, 0 <= free < 1 and 0 <= edited <= 1."
            )
        if not self.blur > 0.0:
            raise InputError(f"An alternative needs a positive blur, not {self.blur}.")


@dataclass(frozen=True, slots=True)
class Rule:
    """The parameters of a statistic.

    Attributes:
        bits: m.
        threshold: T; an integer for a hard ball.
        alternative: how marked text is expected to look.
        softness: s of a soft ball, 0 for a hard one.
        residual: whether a sentence is compared with the residual of the next one or all of it.
    """

    bits: int
    threshold: float
    alternative: Alternative
    softness: float = 0.0
    residual: bool = False


def natural_match(similarity: NDArray[np.float64], *, rule: Rule) -> NDArray[np.float64]:
    """Probability over keys that one bit matches at these cosines; 1/2 for all residuals."""
    return theory.match_probability(np.zeros_like(similarity) if rule.residual else similarity)


def natural_acceptance(similarity: NDArray[np.float64], *, rule: Rule) -> NDArray[np.float64]:
    """a, the probability over keys that pairs at these cosines satisfy the rule."""
    matching = natural_match(similarity, rule=rule)
    return soft_acceptance(rule.bits, rule.threshold, matching, softness=rule.softness)


def grid_steps(similarity: NDArray[np.float64], *, rule: Rule) -> NDArray[np.intp]:
    """The step of the grid nearest to the natural match probability at each cosine."""
    return np.rint(natural_match(similarity, rule=rule) * GRID).astype(np.intp)


class Pairs:
    """Pairs of neighbouring sentences under k keys.

    Args:
        projections: of n sentences, (n, k, m).
        similarity: cosines of neighbours, (n - 1,).
        rule: m, and whether the second sentence is compared whole or by its residual.
        second: projections of n other sentences, (n, k, m), if each of the n is paired with one of
            these and not with its neighbour; there are then n pairs, and n similarities.

    Attributes:
        steps: the step of the grid of natural match probabilities for each pair, (n - 1,).
    """

    def __init__(
        self,
        projections: NDArray[np.float32],
        similarity: NDArray[np.float64],
        *,
        rule: Rule,
        second: NDArray[np.float32] | None = None,
    ) -> None:
        self._bits = rule.bits
        self._projections = projections
        self.steps = grid_steps(similarity, rule=rule)
        self._neighbours = second is None
        self._second = second
        if rule.residual:
            before, after = (
                (projections[:-1], projections[1:]) if second is None else (projections, second)
            )
            self._second = residual_of(before, after, similarity)

    def matches(self) -> NDArray[np.uint8]:
        """M, the number of matching bits: (n - 1, k)."""
        before, after = self._both(hash_bits)
        return match_counts(before, after, bits=self._bits)

    def matching_bits(self) -> NDArray[np.bool_]:
        """Which bits match: (n - 1, k, m)."""
        before, after = self._both(lambda values: values >= 0.0)
        matching: NDArray[np.bool_] = before == after
        return matching

    def agreement(self, softness: float) -> NDArray[np.float32]:
        """M, the sum of the degrees to which bits agree: (n - 1, k)."""
        before, after = self._both(lambda values: values)
        return agreement(before, after, softness=softness)

    def tanh(self, scale: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The hyperbolic tangents of x / scale, first and second sentences: (n - 1, k, m) each."""
        return self._both(lambda values: np.tanh(values * np.float32(1.0 / scale)))

    def _both(self, view: Callable[[NDArray[np.float32]], NDArray[Any]]) -> tuple[Any, Any]:
        """A function of the first and second projections; evaluated once per sentence if shared."""
        values = view(self._projections)
        first = values[:-1] if self._neighbours else values
        return first, values[1:] if self._second is None else view(self._second)


def residual_of(
    before: NDArray[np.float32], after: NDArray[np.float32], cosine: NDArray[np.float64]
) -> NDArray[np.float32]:
    """f, the residual of e' after e, or its projections.

    Args:
        before: e, or its projections, (n, ...) or anything that broadcasts to it.
        after: e', or its projections, (n, ...).
        cosine: ρ of each pair, (n,).

    Returns:
        Like ``after``.
    """
    left = 1.0 - np.square(cosine)
    scale = 1.0 / np.sqrt(np.maximum(left, MIN_RESIDUAL))
    shape = (-1, *(1,) * (after.ndim - 1))
    part: NDArray[np.float32] = after - cosine.astype(np.float32).reshape(shape) * before
    part *= scale.astype(np.float32).reshape(shape)
    copies = left <= MIN_RESIDUAL
    if copies.any():
        part[copies] = -np.broadcast_to(before, part.shape)[copies]
    return part
