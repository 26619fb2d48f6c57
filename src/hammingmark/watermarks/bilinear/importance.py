"""A null distribution by importance sampling from marked texts.

Let X be the scores of the text under the secret key, distributed as P under the null. Let Y_1 ...
Y_K be drawn from Q, with weights w = dP/dQ. For any statistic S,

    p = (w(X) + Σ_k w(Y_k) 1{S(Y_k) >= S(X)}) / (K + 1)

is at most α with probability at most α, for every K (Harrison, Biometrika 2012). To see this, draw
X from Q as well and count it with its weight. The K + 1 draws are then exchangeable, and those with
p <= α, which are those with the largest S, have a total weight of at most α (K + 1). If Q is marked
text, w is one over the likelihood ratio, so that a p-value is as small as the evidence allows.

Here Q is a mixture of texts that are wholly marked, texts with a marked passage, and a few unmarked
texts, so that no weight is large.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.key import Secret
from hammingmark.protocols import ComputedNull
from hammingmark.records import Power
from hammingmark.stats.joint import joint_p_value, smaller_tails
from hammingmark.stats.normal import DEEPEST
from hammingmark.stats.passages import scan_along
from hammingmark.stats.sums import SMALLEST
from hammingmark.watermarks.bilinear.deviates import Alternative
from hammingmark.watermarks.bilinear.marked_scores import MarkedScores, passage_log_ratio

DoubleArray = NDArray[np.float64]

DRAWS = 1000
"""K, the draws for each section."""

_TIE = 1e-9  # relative difference of two sums that are equal up to rounding
_WHOLE, _PASSAGES, _UNMARKED = 0.5, 0.375, 0.125  # shares of the draws
_REWORDED = Alternative(edited=1.0)  # as by translation
_SIMULATED = (200, 1000)  # the fewest and most marked texts of a kind, to estimate the power
_SIMULATED_SENTENCES = 4000  # sentences of those of one kind, within these bounds
_ENDS = (1 / 8, 1 / 32, 1 / 128)  # the probability that a passage ends after each of its sentences


class ImportanceNull:
    """The distribution of a text's likelihood ratio over keys that are independent of the text.

    A long text is tested section by section. Its p-value is then the smallest of theirs times their
    number, which is valid however the sections depend on each other.

    Args:
        sections: the sections of the text.
        secret: the key's secret, from which the draws are generated.
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
        """The number of draws for each section."""
        return DRAWS

    @cached_property
    def best(self) -> DoubleArray:
        """An upper bound on the increment of each unit under any key, (u,)."""
        counted = np.concatenate([section.scores.counted for section in self._sections])
        return np.where(counted, -DEEPEST, 0.0)

    @cached_property
    def attainable(self) -> float:
        """The p-value of the best draw; hardly any marked text has a smaller p-value."""
        smallest = min(section.smallest for section in self._sections)
        return self._corrected(smallest)

    def p_value(self, own: DoubleArray) -> float:
        """The probability of a sum at least as large as that of these increments, (u,)."""
        return self._corrected(min(section.p_value(own[place]) for section, place in self._pairs))

    def window_p_value(self, own: DoubleArray, window: slice) -> float:
        """The probability that any window has a sum at least as large as this one."""
        inside = np.zeros(len(own), np.bool_)
        inside[window] = True
        tails = [
            section.window_p_value(own[place], float(own[place][inside[place]].sum()))
            for section, place in self._pairs
            if inside[place].any()
        ]
        return self._corrected(min(tails))

    def joint_p_value(self, own: DoubleArray) -> float:
        """The p-value of the sum of these increments and of their best window together."""
        return self._corrected(
            min(section.joint_p_value(own[place]) for section, place in self._pairs)
        )

    def power(self, level: float) -> Power:
        """How often marked texts like this one reach the level, from its first section."""
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
    """A section of a text, whose scores are compared together."""

    def __init__(self, scores: MarkedScores, secret: Secret, number: int) -> None:
        self.scores = scores
        self._secret = secret
        self._number = number

    @property
    def smallest(self) -> float:
        """The p-value of the best draw."""
        sums, _, _ = self._scored_draws
        return self.p_value(self.drawn_increments[:, int(np.argmax(sums))])

    def p_value(self, own: DoubleArray) -> float:
        """The probability of a sum at least as large as that of these increments, (n,)."""
        sums, _, weights = self._scored_draws
        return self._weighted_tail(own, weights[sums >= _below(float(own.sum()), own)])

    def window_p_value(self, own: DoubleArray, score: float) -> float:
        """The probability that the best window has at least this score, for increments (n,)."""
        _, bests, weights = self._scored_draws
        return self._weighted_tail(own, weights[bests >= _below(score, own)])

    def joint_p_value(self, own: DoubleArray) -> float:
        """The p-value of the sum and the best window together, for increments (n,)."""
        sums, bests, weights = self._scored_draws
        total, best = scan_along([own[:, None]], np.zeros(len(own)))
        return joint_p_value(
            np.append(_below(float(total[0]), own), sums),
            np.append(_below(float(best[0]), own), bests),
            np.append(self.weights(own[:, None]), weights),
        )

    def power(self, level: float) -> Power:
        """How often marked texts like this one reach the level.

        The mean is over the wholly marked draws, and so over the histories. The other figures come
        from draws of marked texts of which it is known what happened to them.
        """
        sums, _, weights = self._scored_draws
        order = np.argsort(-sums)
        reached = np.cumsum(weights[order]) <= level * (DRAWS + 1)
        p_values, joint = self._p_values_of_marked
        lengths = self._lengths
        as_written, reworded, _ = (np.maximum(p_values, joint) <= level).mean(axis=1).tolist()
        return Power(
            mean=float(reached[self._whole[order]].mean()),
            as_written=as_written,
            reworded=min(reworded, as_written),  # may be larger by chance
            passage=_least_length(lengths, joint[2] <= level),
        )

    @cached_property
    def _p_values_of_marked(self) -> tuple[DoubleArray, DoubleArray]:
        """The p-value of each simulated marked text, and that of it and its best window: (3, k).

        Those of the first row are marked throughout and left as written, those of the second
        reworded, those of the third have a marked passage that was left as written. The first
        sentence of a text counts as unmarked, as that of an answer in a chat is, and so does that
        of a passage, which was chosen after another sentence than stands before it now.
        """
        n, k = len(self.scores.counted), self._simulated
        place, free, *deviates = self._uniforms_of("power", 4 * n, 3 * k).reshape(4, n, 3, k)
        begins = np.floor(place[0, 2] * (n + 1 - self._lengths))
        places = np.arange(n)[:, None]
        correlations = np.empty((n, 3, k))
        correlations[:, 0], correlations[:, 1] = 1.0, _REWORDED.correlation
        correlations[:, 2] = (begins < places) & (places < begins + self._lengths)
        correlations[0] = 0.0
        correlations[free < _REWORDED.free] = 0.0
        increments = self.scores.draw_with(
            correlations.reshape(n, 3 * k), np.stack(deviates, axis=1).reshape(n, 2, 3 * k)
        )
        p_values, joint = self._p_values(increments)
        return p_values.reshape(3, k), joint.reshape(3, k)

    def _p_values(self, increments: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
        """`p_value` and `joint_p_value` of many texts at once: (n, k) to (k,) each."""
        sums, bests, weights = self._scored_draws
        totals, windows = scan_along([increments], np.zeros(len(increments)))
        own = self.weights(increments)
        whole = own + _reached(sums, weights, totals)
        smaller = np.minimum(whole, own + _reached(bests, weights, windows))
        joint = own + _reached(-smaller_tails(sums, bests, weights), weights, -smaller)
        return whole / (DRAWS + 1), joint / (DRAWS + 1)

    @property
    def _simulated(self) -> int:
        """The number of marked texts of each kind: more of a short text, which take no longer."""
        return int(np.clip(_SIMULATED_SENTENCES // len(self.scores.counted), *_SIMULATED))

    @property
    def _lengths(self) -> DoubleArray:
        """The lengths of the marked passages of simulated texts, evenly on a log scale, (k,)."""
        k, n = self._simulated, len(self.scores.counted)
        lengths: DoubleArray = np.ceil(np.exp((np.arange(k) + 0.5) / k * np.log(n)))
        return lengths

    def unmarked(self, block: int) -> DoubleArray:
        """A block of increments of unmarked texts, (n, k)."""
        n = len(self.scores.counted)
        none_marked = np.zeros((n, DRAWS), np.bool_)
        return self.scores.draw(
            none_marked, self._uniforms("unmarked", 3 * n, block).reshape(n, 3, -1)
        )

    def _weighted_tail(self, own: DoubleArray, tail_weights: DoubleArray) -> float:
        """p, from the increments of X (n,) and the weights of the draws with S(Y) >= S(X)."""
        weight = float(self.weights(own[:, None])[0])
        return min(1.0, (weight + float(tail_weights.sum())) / (DRAWS + 1))

    @cached_property
    def drawn_increments(self) -> DoubleArray:
        """Increments of the draws, (n, k)."""
        n = len(self.scores.counted)
        return self.scores.draw(self._marked, self._uniforms("null", 3 * n, 0).reshape(n, 3, DRAWS))

    @cached_property
    def _scored_draws(self) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
        """Sum, best window and weight of each draw, (k,)."""
        increments = self.drawn_increments
        sums, bests = scan_along([increments], np.zeros(len(increments)))
        return sums, bests, self.weights(increments)

    @property
    def _whole(self) -> NDArray[np.bool_]:
        """Which draws are wholly marked, (k,)."""
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

    def weights(self, increments: DoubleArray) -> DoubleArray:
        """dP/dQ of texts with these increments: (n, k) to (k,)."""
        passages = [passage_log_ratio(increments, ends) for ends in _ENDS]
        whole = np.log(_WHOLE) + increments.sum(axis=0)
        share = np.log(_PASSAGES / len(_ENDS))
        ratio = np.logaddexp.reduce(
            [
                np.full_like(whole, np.log(_UNMARKED)),
                whole,
                *(share + passage for passage in passages),
            ]
        )
        weights: DoubleArray = np.exp(-ratio)
        return weights

    def _uniforms(self, label: str, rows: int, block: int) -> DoubleArray:
        return self._uniforms_of(label, rows, DRAWS, block=block)

    def _uniforms_of(self, label: str, rows: int, columns: int, *, block: int = 0) -> DoubleArray:
        index = (block << 32) | self._number
        return self._secret.uniforms(label, rows * columns, index=index).reshape(rows, columns)


def _reached(scores: DoubleArray, weights: DoubleArray, own: DoubleArray) -> DoubleArray:
    """The total weight of the draws whose scores (k,) reach each of other scores, (m,)."""
    order = np.argsort(scores)
    above = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    lowered = own - _TIE * np.maximum(1.0, np.abs(own))
    reached: DoubleArray = above[np.searchsorted(scores[order], lowered)]
    return reached


def _least_length(lengths: DoubleArray, found: NDArray[np.bool_]) -> int | None:
    """The least length from which half of the passages are found; None if only the whole text is.

    It contradicts the fewest of them: those that are shorter and found, or as long and not. There
    the isotonic regression of the share found on the length passes one half.
    """
    candidates = np.unique(lengths)
    contradicted = [
        np.count_nonzero(np.where(lengths < least, found, ~found)) for least in candidates
    ]
    if min(contradicted) >= np.count_nonzero(found):  # no length at all contradicts no more
        return None
    least = int(candidates[int(np.argmin(contradicted))])
    return least if least < candidates[-1] else None


def _below(score: float, own: DoubleArray) -> float:
    """Slightly below a score, so that ties count even if their sums are rounded differently."""
    return score - _TIE * (len(own) + abs(score))
