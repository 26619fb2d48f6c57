"""A null distribution by draws from marked texts, each weighed by how likely it is under the null.

Let X be the scores of the text under the secret key, distributed as P under the null, and Y_1 ...
Y_K drawn from Q, with weights w = dP/dQ. For any statistic S,

    p = (w(X) + Σ_k w(Y_k) 1{S(Y_k) >= S(X)}) / (K + 1)

is at most α with probability at most α, for every K (Harrison, Biometrika 2012). For let X, too, be
drawn from Q and counted with its weight: which of the K + 1 is called X then no longer matters, and
of all of them those with p <= α, which are those with the largest S, weigh α (K + 1) at most. Where
Q is marked text, w is one over the likelihood ratio, so that a p-value goes as deep as the evidence
does.

Q is here a mixture of texts that are marked as a whole, texts with a marked passage, and a few that
are not marked, so that no weight is large.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.key import Secret
from hammingmark.protocols import ComputedNull
from hammingmark.stats.normal import DEEPEST
from hammingmark.stats.passages import scan_along
from hammingmark.stats.sums import SMALLEST
from hammingmark.watermarks.bilinear.marked_scores import MarkedScores, passage_log_ratio

DoubleArray = NDArray[np.float64]

DRAWS = 1000
"""K."""

_TIE = 1e-9
_WHOLE, _PASSAGES, _UNMARKED = 0.5, 0.375, 0.125  # shares of the draws
_ENDS = (1 / 8, 1 / 32, 1 / 128)  # the probability that a passage ends after each of its sentences


class ImportanceNull:
    """How the likelihood ratio of a text behaves over keys that the text does not know.

    A long text is tested section by section. Its p-value is then the smallest of theirs times
    their number, which is valid whatever the sections have in common.

    Args:
        sections: of the text.
        secret: of the key, for draws.
    """

    description = "exact by importance sampling"

    def __init__(self, sections: list[MarkedScores], secret: Secret) -> None:
        self._sections = [
            _Section(scores, secret, number) for number, scores in enumerate(sections)
        ]
        ends = np.cumsum([len(scores.counted) for scores in sections])
        self._places = [
            slice(int(end) - len(scores.counted), int(end))
            for end, scores in zip(ends, sections, strict=True)
        ]

    @property
    def computed(self) -> ComputedNull:
        """Itself."""
        return self

    @property
    def draws(self) -> int:
        """How many were drawn for each section."""
        return DRAWS

    @cached_property
    def best(self) -> DoubleArray:
        """A bound on what any key could give each unit, (u,)."""
        counted = np.concatenate([section.scores.counted for section in self._sections])
        return np.where(counted, -DEEPEST, 0.0)

    @cached_property
    def attainable(self) -> float:
        """The p-value of the best draw; hardly any marked text has a smaller one."""
        smallest = min(section.smallest for section in self._sections)
        return self._corrected(smallest)

    def p_value(self, own: DoubleArray) -> float:
        """The probability of a sum as large as that of these increments, (u,)."""
        return self._corrected(min(section.p_value(own[place]) for section, place in self._pairs))

    def window_p_value(self, own: DoubleArray, window: slice) -> float:
        """The probability that any window has a sum as large as this one."""
        inside = np.zeros(len(own), np.bool_)
        inside[window] = True
        tails = [
            section.window_p_value(own[place], float(own[place][inside[place]].sum()))
            for section, place in self._pairs
            if inside[place].any()
        ]
        return self._corrected(min(tails))

    def power(self, level: float) -> float | None:
        """How often a marked text would reach the level, by the first section if there are more."""
        return self._sections[0].power(level / len(self._sections))

    def blocks(self) -> Iterator[Iterator[DoubleArray]]:
        """Increments of unmarked texts, section after section."""
        return ((section.unmarked(block) for section in self._sections) for block in count())

    @property
    def _pairs(self) -> Iterator[tuple[_Section, slice]]:
        return zip(self._sections, self._places, strict=True)

    def _corrected(self, p_value: float) -> float:
        return max(SMALLEST, min(1.0, len(self._sections) * p_value))


class _Section:
    """Scores that are compared together."""

    def __init__(self, scores: MarkedScores, secret: Secret, number: int) -> None:
        self.scores = scores
        self._secret = secret
        self._number = number

    @property
    def smallest(self) -> float:
        """The p-value of the best draw."""
        sums, _, _ = self._drawn
        return self.p_value(self.told[:, int(np.argmax(sums))])

    def p_value(self, own: DoubleArray) -> float:
        sums, _, weights = self._drawn
        return self._weighed(own, weights[sums >= _nearly(float(own.sum()), own)])

    def window_p_value(self, own: DoubleArray, score: float) -> float:
        _, bests, weights = self._drawn
        return self._weighed(own, weights[bests >= _nearly(score, own)])

    def power(self, level: float) -> float:
        sums, _, weights = self._drawn
        order = np.argsort(-sums)
        reached = np.cumsum(weights[order]) <= level * (DRAWS + 1)
        return float(reached[self._whole[order]].mean())

    def unmarked(self, block: int) -> DoubleArray:
        n = len(self.scores.counted)
        none = np.zeros((n, DRAWS), np.bool_)
        return self.scores.draw(none, self._uniforms("unmarked", 3 * n, block).reshape(n, 3, -1))

    def _weighed(self, own: DoubleArray, others: DoubleArray) -> float:
        weight = float(self.weights(own[:, None])[0])
        return min(1.0, (weight + float(others.sum())) / (DRAWS + 1))

    @cached_property
    def told(self) -> DoubleArray:
        """Increments of the draws, (n, k)."""
        n = len(self.scores.counted)
        return self.scores.draw(self._marked, self._uniforms("null", 3 * n, 0).reshape(n, 3, DRAWS))

    @cached_property
    def _drawn(self) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
        """Sum, best window and weight of each draw, (k,)."""
        sums, bests = scan_along([self.told], np.zeros(len(self.told)))
        return sums, bests, self.weights(self.told)

    @property
    def _whole(self) -> NDArray[np.bool_]:
        """Which draws are marked as a whole, (k,)."""
        whole: NDArray[np.bool_] = self._uniforms("mixture", 3, 0)[0] < _WHOLE
        return whole

    @property
    def _marked(self) -> NDArray[np.bool_]:
        """Which sentences of each draw are marked, (n, k)."""
        n = len(self.scores.counted)
        which, begin, length = self._uniforms("mixture", 3, 0)
        passage = np.floor((which - _WHOLE) / _PASSAGES * len(_ENDS)).astype(np.int64)
        ends = np.array(_ENDS)[np.clip(passage, 0, len(_ENDS) - 1)]
        begins = np.floor(begin * n)
        lengths = np.ceil(np.log(length) / np.log1p(-ends))
        places = np.arange(n)[:, None]
        inside = (begins <= places) & (places < begins + lengths) & (passage < len(_ENDS))
        marked: NDArray[np.bool_] = inside | self._whole
        return marked

    def weights(self, told: DoubleArray) -> DoubleArray:
        """dP/dQ of texts with these increments: (n, k) to (k,)."""
        passages = [passage_log_ratio(told, ends) for ends in _ENDS]
        whole = np.log(_WHOLE) + told.sum(axis=0)
        share = np.log(_PASSAGES / len(_ENDS))
        ratio = np.logaddexp.reduce(
            [np.full_like(whole, np.log(_UNMARKED)), whole, *(share + each for each in passages)]
        )
        weights: DoubleArray = np.exp(-ratio)
        return weights

    def _uniforms(self, label: str, rows: int, block: int) -> DoubleArray:
        index = (block << 32) | self._number
        return self._secret.uniforms(label, rows * DRAWS, index=index).reshape(rows, DRAWS)


def _nearly(score: float, own: DoubleArray) -> float:
    """A little below a score, so that ties count, also those that another order of adding blurs."""
    return score - _TIE * (len(own) + abs(score))
