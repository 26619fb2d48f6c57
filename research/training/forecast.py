"""Forecasts from an encoder's figures: candidates per sentence, and evidence after rewriting.

The score of a candidate is a standard normal over keys. Candidates of one context have the
correlation τ², their mean cosine: the score is μ + √(1 - τ²) ε with one μ ~ N(0, τ²) per context.
A candidate is accepted if its score is at least T. Rewriting both sentences multiplies a score by
the product κ of their cosines and adds noise that makes it a standard normal again.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_DOUBT = 0.05
"""Share of transitions that the detector assumes to be unmarked."""
_PARTS = 64
"""The number of groups of transitions with similar κ."""


def candidates(threshold: float, tau2: float) -> float:
    """The mean number of candidates per sentence, E[1 / Φ((μ - T) / √(1 - τ²))]."""
    middles, weights = _contexts(tau2)
    return float(weights @ (1.0 / _below((middles - threshold) / math.sqrt(1.0 - tau2))))


def threshold_at(cost: float, tau2: float) -> float:
    """The T at which a sentence takes ``cost`` candidates on average."""
    low, high = -4.0, 4.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if candidates(middle, tau2) < cost else (low, middle)
    return low


def evidence(kept: Floats, *, tau2: float, cost: float) -> float:
    """Bits per transition at a cost: the mean log-likelihood ratio after rewriting.

    The detector knows T and the mean of κ, not the κ of each transition.

    Args:
        kept: κ of some transitions, (n,).
        tau2: of the candidates.
        cost: candidates per sentence.
    """
    T = threshold_at(cost, tau2)
    spread = math.sqrt(1.0 - tau2)
    middles, weights = _contexts(tau2)
    scores = np.linspace(T, max(T, 0.0) + 6.0, 241)
    density = np.exp(-0.5 * ((scores - middles[:, None]) / spread) ** 2)
    accepted = weights @ (density / density.sum(axis=1, keepdims=True))
    noise, noise_weights = _normal_grid()
    assumed = float(np.clip(np.mean(kept), 0.05, 0.999))
    total = 0.0
    for part in np.array_split(np.sort(kept), min(len(kept), _PARTS)):
        kappa = float(np.clip(part.mean(), -1.0, 1.0))
        now = kappa * scores[:, None] + math.sqrt(1.0 - kappa**2) * noise
        before = _below((assumed * now - T) / math.sqrt(1.0 - assumed**2))
        ratio = (1.0 - _DOUBT) * before / _below(np.array(-T)) + _DOUBT
        total += len(part) / len(kept) * float(accepted @ np.log2(ratio) @ noise_weights)
    return total


def threshold_of(acceptance: float) -> float:
    """The T that a natural candidate reaches with this probability."""
    return NormalDist().inv_cdf(1.0 - acceptance)


def _below(values: Floats) -> Floats:
    """Φ."""
    found: Floats = torch.special.ndtr(torch.as_tensor(values, dtype=torch.float64)).numpy()
    return found


def _normal_grid() -> tuple[Floats, Floats]:
    """Grid points of a standard normal, and their weights."""
    places = np.linspace(-6.0, 6.0, 121)
    weights = np.exp(-0.5 * places**2)
    return places, weights / weights.sum()


def _contexts(tau2: float) -> tuple[Floats, Floats]:
    """Values of μ and their weights."""
    places, weights = _normal_grid()
    return places * math.sqrt(max(tau2, 0.0)), weights
