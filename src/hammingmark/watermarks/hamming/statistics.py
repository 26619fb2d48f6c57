"""The statistics, and the increment of a transition to each.

Every statistic is a sum over transitions, so that one pass gives the whole text, any window of it,
and any number of keys. Arrays are laid out sentences first, then keys, then bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hammingmark.watermarks.hamming import theory
from hammingmark.watermarks.hamming.pairs import GRID, Alternative, Pairs, Rule
from hammingmark.watermarks.hamming.soft import (
    accepted_before,
    soft_acceptance,
    soft_moments,
    widened,
)

DoubleArray = NDArray[np.float64]

DETECTION_SOFTNESS = 0.5
"""The softness of the soft statistic for text that was marked with a hard ball."""


class Statistic(ABC):
    """One statistic under one rule: the increments of transitions, under any number of keys.

    Args:
        rule: m, T and the alternative.

    Attributes:
        name: the name that users give.
        is_ratio: whether it is a sum of log-likelihood ratios; the others are averaged.
    """

    name: ClassVar[str]
    is_ratio: ClassVar[bool] = False

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._table, self._best, self._centre = _grids(type(self), rule)

    def best(self, steps: NDArray[np.intp]) -> NDArray[np.float64]:
        """The largest increment of transitions at these steps of the grid, over keys: (n,)."""
        return self._best[steps]

    def centre(self, steps: NDArray[np.intp]) -> NDArray[np.float64]:
        """What to take off each increment before windows are compared: (n,).

        A window only indicates a marked passage if unmarked transitions lower its sum. In a
        likelihood ratio they do; a vote or a share of bits is measured from halfway between its
        natural mean and its mean under the rule.
        """
        return self._centre[steps]

    def increments(self, pairs: Pairs) -> NDArray[np.float64]:
        """The increment of each of n pairs under each of k keys: (n, k)."""
        places = pairs.matches() + (pairs.steps * (self._rule.bits + 1))[:, None]
        return self._table.take(places)

    @classmethod
    @abstractmethod
    def grids(cls, rule: Rule) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
        """The increment of each match count, its maximum and centre, at each natural probability.

        Returns:
            (grid, m + 1) flattened, or nothing if increments do not depend on match counts alone;
            (grid,); (grid,).
        """


class EdgeVote(Statistic):
    """The share of valid transitions (the paper's equation 9)."""

    name = "edge_vote"

    def increments(self, pairs: Pairs) -> NDArray[np.float64]:
        """1 for a transition that satisfies the rule."""
        rule = self._rule
        if not rule.softness:
            return super().increments(pairs)
        degree = pairs.agreement(rule.softness)
        votes: NDArray[np.float64] = (degree >= np.float32(rule.threshold)).astype(np.float64)
        return votes

    @classmethod
    def grids(cls, rule: Rule) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
        """1 for T matches or more."""
        votes = (np.arange(rule.bits + 1) >= rule.threshold).astype(np.float64)
        natural = acceptance_grid(rule)
        return np.tile(votes, len(natural)), np.ones_like(natural), (natural + 1.0) / 2.0


class GlobalBits(Statistic):
    """The share of matching bits (equation 10)."""

    name = "global_bits"

    @classmethod
    def grids(cls, rule: Rule) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
        """Matches over m."""
        return _share_grids(rule, softness=0.0)


class SoftBits(Statistic):
    """The mean degree of agreement of bits; a bit near its hyperplane counts less."""

    name = "soft"

    def increments(self, pairs: Pairs) -> NDArray[np.float64]:
        """The soft match over m."""
        shares = pairs.agreement(self._rule.softness or DETECTION_SOFTNESS) / self._rule.bits
        return shares.astype(np.float64)

    @classmethod
    def grids(cls, rule: Rule) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
        """Those of the soft match."""
        return _share_grids(rule, softness=rule.softness or DETECTION_SOFTNESS)


class Likelihood(Statistic):
    """The log-likelihood ratio of marked against unmarked text, given the similarities."""

    name = "likelihood"
    is_ratio = True
    blurred: ClassVar[bool] = False

    def increments(self, pairs: Pairs) -> NDArray[np.float64]:
        """The ratio of match counts for a hard ball, otherwise of the rule being satisfied."""
        if not (self._rule.softness or self.blurred):
            return super().increments(pairs)
        accepted = accepted_when_written(pairs, rule=self._rule, blurred=self.blurred)
        natural = acceptance_grid(self._rule)[pairs.steps]
        logs: NDArray[np.float64] = np.log(
            _ratio(accepted, natural[:, None], self._rule.alternative)
        )
        return logs

    @classmethod
    def grids(cls, rule: Rule) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
        """The log-likelihood ratio of each match count."""
        natural = acceptance_grid(rule)
        flat = np.zeros_like(natural)
        if rule.softness or cls.blurred:
            ceiling = np.log(_ratio(np.ones_like(natural), natural, rule.alternative))
            return np.empty(0), ceiling, flat
        probability = np.linspace(0.0, 1.0, GRID + 1)
        ratios = theory.log_likelihood_ratio(
            rule.bits,
            int(rule.threshold),
            probability,
            rule.alternative.flip,
            rule.alternative.free,
            rest=probability,
        )
        return ratios.ravel(), ratios.max(axis=1), flat


class Margin(Likelihood):
    """The likelihood ratio with each bit weighted by its distance from its hyperplane."""

    name = "margin"
    blurred = True


STATISTICS: Mapping[str, type[Statistic]] = {
    kind.name: kind for kind in (Margin, Likelihood, SoftBits, GlobalBits, EdgeVote)
}
"""By name, the default first."""


def _share_grids(rule: Rule, *, softness: float) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
    probability = np.linspace(0.0, 1.0, GRID + 1)
    natural = acceptance_grid(rule)
    mean, spread = soft_moments(probability, softness=softness)
    shares = np.arange(rule.bits + 1) / rule.bits
    centre = mean + spread / np.sqrt(rule.bits) * theory.selection_shift(natural) / 2.0
    return np.tile(shares, len(natural)), np.ones_like(natural), centre


@lru_cache(maxsize=64)
def _grids(kind: type[Statistic], rule: Rule) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
    return kind.grids(rule)


def accepted_when_written(pairs: Pairs, *, rule: Rule, blurred: bool = True) -> NDArray[np.float32]:
    """The probability that each transition satisfied the rule before any edit.

    Without rewording, the matches decide. If rewording added logistic noise of scale s, the sign of
    a projection x was its present sign with probability (1 + tanh(|x| / s)) / 2, two neighbouring
    bits matched with probability (1 + tanh(x / s) tanh(y / s)) / 2, and the number of matches is
    Poisson-binomial: a bit close to its hyperplane is weak evidence for or against the mark.

    Args:
        pairs: n - 1 pairs of neighbours under k keys.
        rule: m, T and the alternative.
        blurred: whether the text may have been reworded.

    Returns:
        (n - 1, k).
    """
    alternative = rule.alternative
    if rule.softness:
        return _softly_accepted(pairs, rule=rule, blurred=blurred)
    untouched = _accepted_before_flips(rule).take(pairs.matches())
    before, after = pairs.tanh(alternative.blur)
    agree = np.ascontiguousarray(np.moveaxis(before * after, -1, 0))
    agree *= np.float32(0.5 - alternative.flip)
    agree += np.float32(0.5)
    reworded = few_mismatches(agree, rule.bits - int(rule.threshold))
    share = np.float32(alternative.edited)
    accepted: NDArray[np.float32] = (1 - share) * untouched + share * reworded
    return accepted


def _softly_accepted(pairs: Pairs, *, rule: Rule, blurred: bool) -> NDArray[np.float32]:
    """`accepted_when_written` for a soft ball."""
    alternative = rule.alternative
    inside = pairs.agreement(rule.softness) >= np.float32(rule.threshold)
    flip = np.float32(alternative.flip)
    accepted: NDArray[np.float32] = np.where(inside, 1.0 - flip, flip).astype(np.float32)
    if blurred:
        share = np.float32(alternative.edited)
        wide = widened(rule.softness, alternative.blur)
        reworded = accepted_before(
            *pairs.tanh(wide), threshold=rule.threshold, wide=wide, blur=alternative.blur
        )
        accepted = (1 - share) * accepted + share * reworded
    return accepted


def few_mismatches(match: NDArray[np.float32], allowed: int) -> NDArray[np.float32]:
    """P(at most ``allowed`` of m independent bits differ), by a tree of truncated products.

    Args:
        match: probability that each bit matches, (m, ...).
        allowed: m - T.

    Returns:
        (...).
    """
    terms = [match, 1.0 - match]  # terms[j]: probability of j mismatches within each group of bits
    while len(terms[0]) > 1:
        half = len(terms[0]) // 2
        degree = min(allowed, 2 * (len(terms) - 1))
        products = []
        for total in range(degree + 1):
            pairs = range(max(0, total - len(terms) + 1), min(total, len(terms) - 1) + 1)
            summed = None
            for j in pairs:
                product = terms[j][:half] * terms[total - j][half : 2 * half]
                summed = product if summed is None else np.add(summed, product, out=summed)
            assert summed is not None
            if len(terms[0]) % 2:
                odd = terms[total][-1:] if total < len(terms) else np.zeros_like(summed[:1])
                summed = np.concatenate([summed, odd])
            products.append(summed)
        terms = products
    tail: NDArray[np.float32] = np.add.reduce([term[0] for term in terms[: allowed + 1]])
    return tail


@lru_cache(maxsize=32)
def acceptance_grid(rule: Rule) -> NDArray[np.float64]:
    """The natural acceptance at each step of the grid of natural match probabilities."""
    grid = np.linspace(0.0, 1.0, GRID + 1)
    natural = soft_acceptance(rule.bits, rule.threshold, grid, softness=rule.softness)
    return np.maximum(natural, 1e-12)


@lru_cache(maxsize=32)
def _accepted_before_flips(rule: Rule) -> NDArray[np.float32]:
    """P(at least T bits matched before the flips | M match now): (m + 1,)."""
    counts = np.arange(rule.bits + 1)
    flip = rule.alternative.flip
    kept = np.where(counts[:, None] > np.arange(rule.bits), 1.0 - flip, flip)
    return few_mismatches(kept.T.astype(np.float32), rule.bits - int(rule.threshold))


def _ratio(accepted: NDArray[Any], natural: NDArray[Any], alternative: Alternative) -> NDArray[Any]:
    """The likelihood ratio of a transition that was constrained with probability 1 - free."""
    ratio: NDArray[Any] = alternative.free + (1.0 - alternative.free) * accepted / natural
    return ratio
