"""When to go on with the beginning of a sentence, and when to draw it anew.

The score of a sentence is a standard normal deviate over keys. Its beginning tells part of it: with
x the score of the first k tokens, that of the whole is about normal with mean m = ρ_k x and
variance 1 - ρ_k². So m is a random walk, which gains the variance ρ_l² - ρ_k² from place k to
place l. Let c be the cost of drawing from place j to the next, and q the probability that the
sentence ends before it. The cost V_j(m) of a sentence that is accepted, from place j on, solves

    V_j(m) = c + q P(z < T | m) V_j(m) + (1 - q) E[min(V_{j+1}(m'), V_j(m))]

because what is refused, and what is worse than going back to j, is drawn from j again. A token
that is kept has a price too (`Stages.price`), which is left out here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

DoubleArray = NDArray[np.float64]

# Measured on candidates of SmolLM2-135M under minilm-mark (docs/generation.md): ρ by the number
# of tokens, and the share of sentences that have more tokens than so many.
_TOLD = ((0, 8, 12, 16, 24, 48), (0.0, 0.45, 0.58, 0.66, 0.77, 0.88))
_LONGER = ((0, 9, 14, 22, 33, 45, 70, 140), (1.0, 0.9, 0.75, 0.5, 0.25, 0.1, 0.02, 0.001))
_LEFT = 0.3  # variance of the score that is open when a sentence ends before the next place
_EMBEDDING = 0.5  # tokens that could be drawn in the time of one embedding
_SURE = 3.0  # k, how many tries the fitted probabilities are worth
_LENGTH = 2.0  # price of a token that is kept, in tokens that are drawn
_GRID = np.linspace(-4.0, 4.0, 161)


def told(tokens: float) -> float:
    """ρ, the correlation of the score of a sentence's first tokens with that of all of it."""
    return float(np.interp(tokens, *_TOLD))


@dataclass(frozen=True)
class Stages:
    """Places at which the beginning of a sentence is judged, and what it is worth there.

    Attributes:
        threshold: T.
        first: tokens before the first place.
        tokens: from each place to the next.
        places: how many; beyond the last, a sentence is drawn to its end.
    """

    threshold: float
    first: int = 8
    tokens: int = 6
    places: int = 12

    def at(self, place: int) -> int:
        """Tokens of a beginning at a place; place 0 is where nothing is drawn."""
        return 0 if place == 0 else self.first + (place - 1) * self.tokens

    def cost(self, place: int, mean: float) -> float:
        """V_j(m), in tokens."""
        return float(np.interp(mean, _GRID, self._tables[0][place]))

    def cost_after(self, place: int, mean: float, tries: int) -> float:
        """The same after so many tries in vain.

        The number of tries is expected to be N; after n in vain it is N + n / k (a geometric
        number whose probability has the prior Beta(k, k (N - 1))).
        """
        return self.cost(place, mean) * (1.0 + tries / (_SURE * self.tries(place, mean)))

    def price(self, tokens: int) -> float:
        """What a beginning of so many tokens takes of the text's length.

        Without it long sentences would be favoured: one that has ended is accepted or not, and one
        that goes on has further chances.
        """
        return _LENGTH * tokens

    def tries(self, place: int, mean: float) -> float:
        """How often one draws from here, on average, until one goes on or is done."""
        return float(np.interp(mean, _GRID, self._tables[1][place]))

    @cached_property
    def _tables(self) -> tuple[DoubleArray, DoubleArray]:
        return _solve(self)


@lru_cache(maxsize=64)
def _solve(stages: Stages) -> tuple[DoubleArray, DoubleArray]:
    """The cost and the number of tries, at each place and each mean on the grid: (places, grid)."""
    refused = np.array([NormalDist(m, _LEFT**0.5).cdf(stages.threshold) for m in _GRID])
    costs = np.empty((stages.places, len(_GRID)))
    tries = np.empty_like(costs)
    for j in reversed(range(stages.places)):
        here, there = stages.at(j), stages.at(j + 1)
        last = j == stages.places - 1
        ends = 1.0 if last else 1.0 - _longer(there) / _longer(here)
        draw = (there - here) * (1.0 - ends / 2.0) + _EMBEDDING if not last else 2.0 * stages.tokens
        step = _steps(told(there) ** 2 - told(here) ** 2)
        kept = _LENGTH * (there - here)
        beyond = np.zeros(len(_GRID)) if last else costs[j + 1] + kept
        low, high = np.full(len(_GRID), draw), np.full(len(_GRID), 1e5)
        for _ in range(60):
            middle = np.sqrt(low * high)
            on = (step * np.minimum(beyond, middle[:, None])).sum(axis=1)
            ended = refused * middle + (1.0 - refused) * kept / 2.0
            more = draw + ends * ended + (1.0 - ends) * on > middle
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        costs[j] = high
        worth = (step * (beyond < high[:, None])).sum(axis=1)
        tries[j] = 1.0 / np.maximum(ends * (1.0 - refused) + (1.0 - ends) * worth, 1e-3)
    return costs, tries


def _longer(tokens: float) -> float:
    return float(np.interp(tokens, *_LONGER))


def _steps(variance: float) -> DoubleArray:
    """The probability of each mean at the next place, given that at this one: (grid, grid)."""
    spread = max(variance, 1e-4) ** 0.5
    weights = np.exp(-0.5 * ((_GRID[None, :] - _GRID[:, None]) / spread) ** 2)
    chances: DoubleArray = weights / weights.sum(axis=1, keepdims=True)
    return chances
