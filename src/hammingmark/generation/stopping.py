"""When to go on with the beginning of a sentence, and when to draw it anew.

The score x of the first k tokens of a sentence is a standard normal deviate over keys, and so is
that of the whole. A few tokens more change it to

    x' = c x + √(1 - c²) ε

where c is the similarity of the two embeddings. It is often near 1, and sometimes not: c has the
distribution of natural text at that place. What is drawn from one beginning is alike: after n draws
the next repeats one of them with probability n / (ν + n), and is drawn anew otherwise (a Dirichlet
process). Let b be the cost of a draw from place j to the next, and q the probability that the
sentence ends before it. The cost of a sentence that is accepted, after n draws from place j that
led to nothing, is

    V_{j,n}(x) = b + n / (ν + n) V_{j,n+1}(x) + ν / (ν + n) W
    W = q E[1(z < T)] V_{j,n+1}(x) + (1 - q) E[min(V_{j+1,0}(x'), V_{j,n+1}(x))]

because what is refused, and what is worse than going back to j, is drawn from j again. Sentences
keep their length by this, but for a few percent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

DoubleArray = NDArray[np.float64]

# Measured on sentences of SmolLM2-135M under minilm-mark (`training.beginnings`). By the
# number of tokens that are there: 2 (1 - c) when three more come, in its six sixths; and the share
# of sentences that have more tokens.
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
_LONGER = (
    (0, 4, 6, 8, 10, 14, 18, 22, 28, 33, 40, 50, 60, 70, 90, 140),
    (1, 0.993, 0.96, 0.92, 0.86, 0.74, 0.62, 0.50, 0.35, 0.23, 0.144, 0.077, 0.036, 0.015, 0.005,
     0.0005),
)  # fmt: skip
_ALIKE = (4.5, 2.5)  # ν at the beginning of a sentence, and inside it: 1 / h - 1
_TO_THE_END = 0.6  # of a stage, if the sentence ends in it
_EMBEDDING = 0.3  # tokens that could be drawn in the time of one embedding
_DRAWS = 12  # from one beginning that are told apart
_GRID = np.linspace(-3.5, 3.5, 141)
_NODES = np.linspace(-3.0, 3.0, 31)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


@dataclass(frozen=True)
class Stages:
    """Places at which the beginning of a sentence is judged, and what it is worth there.

    Attributes:
        threshold: T.
        first: tokens before the first place.
        tokens: from each place to the next.
        longest: tokens beyond which a sentence is drawn to its end.
    """

    threshold: float
    first: int = 4
    tokens: int = 3
    longest: int = 60

    @property
    def places(self) -> int:
        """How many places there are, the one where nothing is drawn included."""
        return 2 + max(0, self.longest - self.first) // self.tokens

    def at(self, place: int) -> int:
        """Tokens of a beginning at a place; place 0 is where nothing is drawn."""
        return 0 if place == 0 else self.first + (place - 1) * self.tokens

    def place(self, tokens: int) -> int:
        """The last place that a beginning of so many tokens has reached."""
        if tokens < self.first:
            return 0
        return min(1 + (tokens - self.first) // self.tokens, self.places - 1)

    def cost(self, place: int, score: float, draws: int = 0) -> float:
        """V_{j,n}(x), in tokens; after very many draws, a draw anew is as rare as it is dear."""
        found = float(np.interp(score, _GRID, self._tables[0][place, min(draws, _DRAWS)]))
        return found * max(1.0, _p_novel(place, _DRAWS) / _p_novel(place, draws))

    def p_continue(self, place: int, score: float, draws: int = 0) -> float:
        """The probability that a draw from here is gone on with, or is accepted."""
        return float(np.interp(score, _GRID, self._tables[1][place, min(draws, _DRAWS)]))

    @cached_property
    def _tables(self) -> tuple[DoubleArray, DoubleArray]:
        return _solve(self)


@lru_cache(maxsize=64)
def _solve(stages: Stages) -> tuple[DoubleArray, DoubleArray]:
    """V and the probability of getting on, by place, draws and score: (places, draws + 1, grid)."""
    costs = np.empty((stages.places, _DRAWS + 1, len(_GRID)))
    chances = np.empty_like(costs)
    for j in reversed(range(stages.places)):
        last = j == stages.places - 1
        tokens = 2 * stages.tokens if last else stages.at(j + 1) - stages.at(j)
        ends = 1.0 if last else 1.0 - _longer(stages.at(j + 1)) / _longer(stages.at(j))
        draw = tokens * (1.0 if last else 1.0 - ends / 2.0) + _EMBEDDING
        refused = (_following(stages, j, _TO_THE_END) < stages.threshold).mean(axis=1) @ _WEIGHTS
        if last:
            beyond = np.zeros((len(_GRID), 1, len(_NODES)))
        else:
            beyond = np.interp(_following(stages, j), _GRID, costs[j + 1, 0])
        back = _again(draw, ends, refused, beyond, _p_novel(j, _DRAWS))
        for n in reversed(range(_DRAWS + 1)):
            fresh = _p_novel(j, n)
            on = (beyond < back[:, None, None]).mean(axis=1) @ _WEIGHTS
            chances[j, n] = fresh * (ends * (1.0 - refused) + (1.0 - ends) * on)
            if n < _DRAWS:
                back = _after(draw, ends, refused, beyond, fresh, back)
            costs[j, n] = back
    return costs, chances


def _after(
    draw: float,
    ends: float,
    refused: DoubleArray,
    beyond: DoubleArray,
    fresh: float,
    back: DoubleArray,
) -> DoubleArray:
    """V_{j,n}, from V_{j,n+1} and what is beyond the next place, (grid, sixths, nodes): (grid,)."""
    on = np.minimum(beyond, back[:, None, None]).mean(axis=1) @ _WEIGHTS
    anew = ends * refused * back + (1.0 - ends) * on
    found: DoubleArray = draw + fresh * anew + (1.0 - fresh) * back
    return found


def _again(
    draw: float,
    ends: float,
    refused: DoubleArray,
    beyond: DoubleArray,
    fresh: float,
) -> DoubleArray:
    """V_{j,n} for a large n, where it comes again: (grid,)."""
    low, high = np.zeros(len(_GRID)), np.full(len(_GRID), 1e5)
    for _ in range(50):
        middle = (low + high) / 2.0
        more = _after(draw, ends, refused, beyond, fresh, middle) > middle
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return high


def _p_novel(place: int, draws: int) -> float:
    """ν / (ν + n)."""
    alike = _ALIKE[place > 0]
    return alike / (alike + draws)


def _following(stages: Stages, place: int, share: float = 1.0) -> DoubleArray:
    """What a score becomes a stage later, or a share of one: (grid, sixths, nodes)."""
    if place == 0:
        return np.broadcast_to(_NODES, (len(_GRID), 1, len(_NODES)))
    tokens, changes = _CHANGES
    at = float(np.clip(stages.at(place), tokens[0], tokens[-1]))
    change = np.array([np.interp(at, tokens, sixth) for sixth in zip(*changes, strict=True)])
    cosine = (1.0 - change / 2.0) ** (share * stages.tokens / 3.0)
    spread = np.sqrt(1.0 - cosine**2)
    found: DoubleArray = (
        cosine[:, None] * _GRID[:, None, None] + spread[:, None] * _NODES[None, None, :]
    )
    return found


def _longer(tokens: float) -> float:
    return float(np.interp(tokens, *_LONGER))
