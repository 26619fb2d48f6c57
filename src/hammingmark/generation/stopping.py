"""Optimal stopping: when to continue the prefix of a sentence, and when to redraw.

The score x of the first k tokens of a sentence is a standard normal deviate over keys, and so is
that of the complete sentence. A few more tokens change it to

    x' = c x + √(1 - c²) ε

where c is the similarity of the two embeddings, distributed as in natural text at that length.
Draws that continue one prefix resemble each other: after n draws, the next one repeats one of them
with probability n / (ν + n) and is novel otherwise (a Dirichlet process). Let b be the cost of a
draw from stage j to the next, T the threshold, and q the probability that the sentence ends before
the next stage. The expected cost of an accepted sentence, after n draws from stage j none of which
was continued or accepted, is

    V_{j,n}(x) = b + n / (ν + n) V_{j,n+1}(x) + ν / (ν + n) W
    W = q P(x' < T) V_{j,n+1}(x) + (1 - q) E[min(V_{j+1,0}(x'), V_{j,n+1}(x))]

because a rejected draw, and one that is worse than returning to j, lead to another draw from j.
The length of sentences changes by a few percent only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

DoubleArray = NDArray[np.float64]

# Measured on sentences of SmolLM2-135M under minilm-mark (`research/training/beginnings.py`). By
# length in tokens: 2 (1 - c) when three more tokens come, as the means of its six sextiles; and the
# share of sentences that are longer.
_CHANGES = (
    (4, 7, 10, 13, 16, 19, 22, 25, 28, 34, 40, 46),
    (
        (0.023, 0.091, 0.269, 0.561, 1.019, 1.619),
        (0.0066, 0.0427, 0.134, 0.297, 0.655, 1.379),
        (0.0035, 0.0188, 0.0633, 0.208, 0.486, 1.357),
        (0.0018, 0.0068, 0.0275, 0.0953, 0.328, 0.988),
        (0.0010, 0.0045, 0.0178, 0.0587, 0.214, 0.729),
        (0.0009, 0.0029, 0.0101, 0.0380, 0.158, 0.638),
        (0.0006, 0.0023, 0.0086, 0.0325, 0.114, 0.624),
        (0.0004, 0.0013, 0.0053, 0.0205, 0.0844, 0.559),
        (0.0003, 0.0009, 0.0029, 0.0086, 0.0578, 0.408),
        (0.0003, 0.0010, 0.0027, 0.0129, 0.0612, 0.333),
        (0.0001, 0.0005, 0.0012, 0.0059, 0.0220, 0.155),
        (0.0001, 0.0003, 0.0005, 0.0010, 0.0131, 0.340),
    ),
)
_SURVIVAL = (
    (0, 4, 6, 8, 10, 14, 18, 22, 28, 33, 40, 50, 60, 70, 90, 140),
    (1, 0.993, 0.96, 0.92, 0.86, 0.74, 0.62, 0.50, 0.35, 0.23, 0.144, 0.077, 0.036, 0.015, 0.005,
     0.0005),
)  # fmt: skip
_CONCENTRATION = (4.5, 2.5)  # ν at the start of a sentence and inside it: 1 / h - 1
_FINAL_SHARE = 0.6  # of a stage that is drawn, if the sentence ends in it
_EMBEDDING = 0.3  # tokens that could be drawn in the time of one embedding
_MAX_DRAWS = 12  # draws from one prefix that are distinguished
_GRID = np.linspace(-3.5, 3.5, 141)
_NODES = np.linspace(-3.0, 3.0, 31)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


@dataclass(frozen=True)
class Stages:
    """The stages of a sentence, and the expected cost of an accepted one from each.

    Stage 0 is the empty prefix; at each later stage the prefix drawn so far is judged.

    Attributes:
        threshold: T.
        first: tokens of the prefix at stage 1.
        tokens: tokens from each stage to the next.
        longest: tokens of the prefix beyond which there are no more stages; the sentence is then
            drawn to its end.
        at_once: stages that a request goes through before its prefixes are judged. The cost does
            not count what a request takes besides its tokens, nor how much of them is not needed.
    """

    threshold: float
    first: int = 4
    tokens: int = 3
    longest: int = 60
    at_once: int = field(default=1, compare=False)

    @property
    def count(self) -> int:
        """The number of stages, the empty prefix included."""
        return 2 + max(0, self.longest - self.first) // self.tokens

    def tokens_at(self, stage: int) -> int:
        """The tokens of a prefix at a stage."""
        return 0 if stage == 0 else self.first + (stage - 1) * self.tokens

    def stage_of(self, tokens: int) -> int:
        """The last stage that a prefix of so many tokens has reached."""
        if tokens < self.first:
            return 0
        return min(1 + (tokens - self.first) // self.tokens, self.count - 1)

    def expected_cost(self, stage: int, score: float, draws: int = 0) -> float:
        """V_{j,n}(x) in tokens, extrapolated for large n: it grows as novel draws become rare."""
        cost = float(np.interp(score, _GRID, self._tables[0][stage, min(draws, _MAX_DRAWS)]))
        return cost * max(1.0, _p_novel(stage, _MAX_DRAWS) / _p_novel(stage, draws))

    def p_continue(self, stage: int, score: float, draws: int = 0) -> float:
        """The probability that a draw from a prefix is continued or accepted."""
        return float(np.interp(score, _GRID, self._tables[1][stage, min(draws, _MAX_DRAWS)]))

    @cached_property
    def _tables(self) -> tuple[DoubleArray, DoubleArray]:
        return _backward_induction(self)


def stages_at_once(request_price: float) -> int:
    """The number of stages that a request should go through, by its price in tokens.

    Its price is fixed, and what it draws in vain grows with its length, so their sum is smallest at
    a length that grows as the square root of the price. `research/training/request_length.py`
    compares numbers of stages in simulated searches.
    """
    return 1 + round(math.sqrt(request_price))


@lru_cache(maxsize=64)
def _backward_induction(stages: Stages) -> tuple[DoubleArray, DoubleArray]:
    """V and the probability to continue, by stage, draws and score: (stages, draws + 1, grid)."""
    costs = np.empty((stages.count, _MAX_DRAWS + 1, len(_GRID)))
    chances = np.empty_like(costs)
    for j in reversed(range(stages.count)):
        is_last = j == stages.count - 1
        tokens = 2 * stages.tokens if is_last else stages.tokens_at(j + 1) - stages.tokens_at(j)
        q = p_end(stages, j)
        draw_cost = tokens * (1.0 if is_last else 1.0 - q / 2.0) + _EMBEDDING
        final_scores = _next_scores(stages, j, is_over=True)
        p_rejected = (final_scores < stages.threshold).mean(axis=1) @ _WEIGHTS
        if is_last:
            continued = np.zeros((len(_GRID), 1, len(_NODES)))
        else:
            continued = np.interp(_next_scores(stages, j), _GRID, costs[j + 1, 0])
        value = _fixed_point(draw_cost, q, p_rejected, continued, _p_novel(j, _MAX_DRAWS))
        for n in reversed(range(_MAX_DRAWS + 1)):
            p_novel = _p_novel(j, n)
            p_better = (continued < value[:, None, None]).mean(axis=1) @ _WEIGHTS
            chances[j, n] = p_novel * (q * (1.0 - p_rejected) + (1.0 - q) * p_better)
            if n < _MAX_DRAWS:
                value = _bellman_update(draw_cost, q, p_rejected, continued, p_novel, value)
            costs[j, n] = value
    return costs, chances


def _bellman_update(
    draw_cost: float,
    p_end: float,
    p_rejected: DoubleArray,
    continued: DoubleArray,
    p_novel: float,
    value: DoubleArray,
) -> DoubleArray:
    """V_{j,n}, (grid,).

    Args:
        draw_cost: b.
        p_end: q.
        p_rejected: the probability that a sentence that ends is rejected, (grid,).
        continued: V_{j+1,0}(x') over the nodes of x', (grid, sextiles, nodes).
        p_novel: ν / (ν + n).
        value: V_{j,n+1}, (grid,).
    """
    best = np.minimum(continued, value[:, None, None]).mean(axis=1) @ _WEIGHTS
    novel = p_end * p_rejected * value + (1.0 - p_end) * best
    update: DoubleArray = draw_cost + p_novel * novel + (1.0 - p_novel) * value
    return update


def _fixed_point(
    draw_cost: float,
    p_end: float,
    p_rejected: DoubleArray,
    continued: DoubleArray,
    p_novel: float,
) -> DoubleArray:
    """The fixed point of `_bellman_update`, V_{j,n} for a large n, by bisection: (grid,)."""
    low, high = np.zeros(len(_GRID)), np.full(len(_GRID), 1e5)
    for _ in range(50):
        middle = (low + high) / 2.0
        is_above = (
            _bellman_update(draw_cost, p_end, p_rejected, continued, p_novel, middle) > middle
        )
        low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
    return high


def _p_novel(stage: int, draws: int) -> float:
    """The probability that the next draw from a prefix repeats none before it, ν / (ν + n)."""
    nu = concentration(stage)
    return nu / (nu + draws)


def concentration(stage: int) -> float:
    """ν, the concentration of the draws from a prefix."""
    return _CONCENTRATION[stage > 0]


def p_end(stages: Stages, stage: int) -> float:
    """q, the probability that a sentence ends before the next stage."""
    if stage == stages.count - 1:
        return 1.0
    return 1.0 - _survival(stages.tokens_at(stage + 1)) / _survival(stages.tokens_at(stage))


def similarities(stages: Stages, stage: int, *, is_over: bool) -> DoubleArray:
    """c, the similarity to a prefix of what it is one stage later, or at its end: sextiles, (6,).

    Not for stage 0, whose score tells nothing of the next one.
    """
    lengths, changes = _CHANGES
    length = float(np.clip(stages.tokens_at(stage), lengths[0], lengths[-1]))
    change = np.array([np.interp(length, lengths, sixth) for sixth in zip(*changes, strict=True)])
    share = _FINAL_SHARE if is_over else 1.0
    cosine: DoubleArray = (1.0 - change / 2.0) ** (share * stages.tokens / 3.0)
    return cosine


def _next_scores(stages: Stages, stage: int, *, is_over: bool = False) -> DoubleArray:
    """The scores one stage later, or at the end of the sentence: (grid, sextiles, nodes)."""
    if stage == 0:
        return np.broadcast_to(_NODES, (len(_GRID), 1, len(_NODES)))
    cosine = similarities(stages, stage, is_over=is_over)
    spread = np.sqrt(1.0 - cosine**2)
    scores: DoubleArray = (
        cosine[:, None] * _GRID[:, None, None] + spread[:, None] * _NODES[None, None, :]
    )
    return scores


def _survival(tokens: float) -> float:
    """The share of sentences that have more tokens."""
    return float(np.interp(tokens, *_SURVIVAL))
