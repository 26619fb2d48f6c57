"""What each transition adds to a statistic.

Every statistic is a sum over transitions, so that one pass serves the whole text, any window of
it, and any number of keys. Arrays are laid out sentences first, then keys, then bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hammingmark.core import theory
from hammingmark.core.hashing import hash_bits
from hammingmark.core.matching import transition_matches
from hammingmark.records import StatisticName

_GRID = 4096  # steps in which the natural match probability is told apart


@dataclass(frozen=True, slots=True)
class Alternative:
    """What a marked text is expected to look like by the time it is judged.

    A wrong expectation costs power and nothing else: the p-value is taken over keys.

    Attributes:
        flip: chance that an edit turns a match into a mismatch or back.
        free: chance that a transition was never constrained (an inserted sentence, a fallback).
        blur: scale of the noise in a projection, in units of its own spread; a bit nearer to its
            hyperplane than this is an unreliable witness (margin statistic only).
    """

    flip: float = 0.05
    free: float = 0.05
    blur: float = 0.3


@dataclass(frozen=True, slots=True)
class Rule:
    """What decides a statistic beside the text: m, T, and what marked text should look like."""

    bits: int
    threshold: int
    alternative: Alternative


def cosines(embeddings: NDArray[np.float32]) -> NDArray[np.float64]:
    """rho of neighbouring unit rows: (n, d) to (n - 1,)."""
    products = (embeddings[1:].astype(np.float64) * embeddings[:-1]).sum(axis=1)
    clipped: NDArray[np.float64] = np.clip(products, -1.0, 1.0)
    return clipped


class Scoring:
    """One statistic, made ready for one text.

    Args:
        similarity: cosine of each transition's two sentences, (n - 1,).
        statistic: which one.
        rule: m, T and the alternative.

    Attributes:
        best: the most that any key could give each transition, (n - 1,).
        centre: what to take off each increment before windows are compared, (n - 1,). A window
            only points at a marked passage if unmarked transitions pull its sum down. The
            likelihood ratios do so by themselves; a vote or a share of bits is measured from the
            middle between its natural mean and its mean under the rule.
    """

    def __init__(
        self, similarity: NDArray[np.float64], *, statistic: StatisticName, rule: Rule
    ) -> None:
        self._statistic = statistic
        self._rule = rule
        self._step = np.rint(theory.match_probability(similarity) * _GRID).astype(np.intp)
        if statistic == "margin":
            self.best = np.log(_ratios(np.ones(len(similarity)), self._natural, rule.alternative))
            self.centre = np.zeros(len(similarity))
        else:
            table, best, centre = _tables(statistic, rule)
            self._table = table
            self.best = best[self._step]
            self.centre = centre[self._step]

    @property
    def _natural(self) -> NDArray[np.float64]:
        return _acceptance_grid(self._rule.bits, self._rule.threshold)[self._step]

    def increments(
        self, projections: NDArray[np.float32], *, first: int = 0
    ) -> NDArray[np.float64]:
        """What each transition adds to the statistic under each key.

        Args:
            projections: of c neighbouring sentences, (c, k, m).
            first: number of the first of them in the text.

        Returns:
            (c - 1, k).
        """
        where = slice(first, first + len(projections) - 1)
        if self._statistic == "margin":
            tail = _matched_before(projections, self._rule)
            return np.log(_ratios(tail, self._natural[where, None], self._rule.alternative))
        matches = transition_matches(hash_bits(projections), bits=self._rule.bits)
        width = self._rule.bits + 1
        return self._table.take(matches + (self._step[where] * width)[:, None])


@lru_cache(maxsize=32)
def _tables(
    statistic: StatisticName, rule: Rule
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Worth of each match count at each natural probability, its maximum, and its centre.

    Returns:
        (grid * (m + 1),), (grid,), (grid,).
    """
    probability = np.linspace(0.0, 1.0, _GRID + 1)
    counts = np.arange(rule.bits + 1)
    if statistic == "likelihood":
        worth = theory.log_likelihood_ratio(
            rule.bits,
            rule.threshold,
            probability,
            rule.alternative.flip,
            rule.alternative.free,
            rest=probability,
        )
        return worth.ravel(), worth.max(axis=1), np.zeros(len(probability))
    shares = counts >= rule.threshold if statistic == "edge_vote" else counts / rule.bits
    worth = np.broadcast_to(shares.astype(np.float64), (len(probability), len(counts)))
    natural = theory.match_law(rule.bits, probability)
    marked = theory.marked_law(rule.bits, rule.threshold, np.clip(probability, 1e-6, 1.0), 0.0)
    centre: NDArray[np.float64] = ((natural + marked) / 2.0 * worth).sum(axis=1)
    return worth.ravel(), worth.max(axis=1), centre


@lru_cache(maxsize=32)
def _acceptance_grid(bits: int, threshold: int) -> NDArray[np.float64]:
    grid = theory.acceptance(bits, threshold, np.linspace(0.0, 1.0, _GRID + 1))
    return np.maximum(grid, 1e-12)


def _ratios(
    tail: NDArray[np.float64], natural: NDArray[np.float64], alternative: Alternative
) -> NDArray[np.float64]:
    """Likelihood ratio of "M reached T before the edits" against its natural chance."""
    return alternative.free + (1.0 - alternative.free) * tail / natural


def _matched_before(projections: NDArray[np.float32], rule: Rule) -> NDArray[np.float64]:
    """P(the match count reached T before the edits | the projections now): (n - 1, k).

    If the noise in a projection x is logistic, the sign it had before is the present one with
    probability (1 + tanh(|x| / s)) / 2, and two neighbouring bits matched with probability
    (1 + tanh(x / s) tanh(y / s)) / 2. The number of mismatches is then Poisson-binomial, and its
    lower tail needs m - T + 1 states only.
    """
    alternative = rule.alternative
    certain = np.tanh(projections * np.float32(1.0 / alternative.blur))
    agreement = certain[1:] * certain[:-1]
    agreement *= np.float32(0.5 * (1.0 - 2.0 * alternative.flip))
    matched = np.moveaxis(agreement + np.float32(0.5), -1, 0).copy()
    states = [np.ones(matched.shape[1:], np.float32)]
    for match in matched:
        mismatch = 1.0 - match
        moved = [state * mismatch for state in states]
        states = [state * match for state in states]
        for j, arrived in enumerate(moved[: rule.bits - rule.threshold], start=1):
            if j < len(states):
                states[j] += arrived
            else:
                states.append(arrived)
    tail: NDArray[np.float64] = np.add.reduce(states).astype(np.float64)
    return tail
