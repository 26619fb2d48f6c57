"""The exact test over keys.

An unmarked text is independent of the secret key. Under K reference keys drawn like it the same
statistic takes values S_1 ... S_K, exchangeable with the secret key's S, so that

    p = (1 + #{k : S_k >= S}) / (K + 1)

is at most α with probability at most α, whatever the text: any genre, length, language or author.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_TIE = 1e-9
_FEWEST_ABOVE = 10  # scores above a critical score that is read off the scores themselves
_DEPENDENT = 1e-6  # a sentence's component outside the span of others that is mere rounding


def coordinates(embeddings: NDArray[np.float32]) -> NDArray[np.float32]:
    """The coordinates of sentences in the space that they span: (n, d) to (n, min(n, d)).

    E = L Q with orthonormal rows in Q. A Gaussian matrix times Q' is again Gaussian, so the
    projections of L under reference planes of width min(n, d) have exactly the distribution of the
    projections of E under planes of width d, at a fraction of the cost. L is lower triangular
    with a non-negative diagonal, which makes it unique.
    """
    n, d = embeddings.shape
    if n >= d:
        return embeddings
    # The Gram-Schmidt process instead of LAPACK's QR, which starts threads: on a busy machine that
    # takes up to a thousand times as long as the arithmetic.
    rest = embeddings.astype(np.float64)
    lower = np.zeros((n, n))
    for j in range(n):
        length = float(np.sqrt((rest[j] * rest[j]).sum()))
        if length < _DEPENDENT:
            continue
        lower[j, j] = length
        rest[j] /= length
        along = np.einsum("ij,j->i", rest[j + 1 :], rest[j])
        lower[j + 1 :, j] = along
        rest[j + 1 :] -= along[:, None] * rest[j]
    return lower.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of a text, which is the direction of its mean sentence, and the residuals.

    Attributes:
        direction: unit vector of the mean of the sentences, (d,).
        along: component of each sentence along it, (n,).
        rest: each sentence without that component, (n, d).
    """

    direction: NDArray[np.float32]
    along: NDArray[np.float32]
    rest: NDArray[np.float32]


def split_topic(embeddings: NDArray[np.float32]) -> Topic:
    """Separate the direction of the mean sentence from the rest of each sentence (n, d).

    A key's projection of that direction, R mu, largely decides how often texts on this topic match
    under the key. Reference keys that share it with the secret key, and are independent of it at
    right angles to that direction, are still exchangeable with it. So the test stays exact, now for
    keys like this one rather than on average over keys. A mark changes R mu a little, too, and this
    part of the evidence is lost.
    """
    mean = embeddings.mean(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(mean))
    direction = (mean / length if length > 0.0 else mean).astype(np.float32)
    along = embeddings @ direction
    return Topic(direction, along, embeddings - along[:, None] * direction)


def without_topic(embeddings: NDArray[np.float32]) -> NDArray[np.float32]:
    """The sentences with their mean direction removed, at length one: (n, d)."""
    rest = split_topic(embeddings).rest.astype(np.float64)
    length = np.sqrt((rest * rest).sum(axis=1, keepdims=True))
    units: NDArray[np.float32] = (rest / np.maximum(length, _DEPENDENT)).astype(np.float32)
    return units


def reaches(scores: NDArray[np.float64], score: float) -> NDArray[np.bool_]:
    """Which scores are at least ``score``; a tie counts, even if rounding makes it smaller."""
    # The negation makes scores that are not a number count as reaching it.
    return ~(scores < score - _TIE * max(1.0, abs(score)))


def p_value(scores: NDArray[np.float64], score: float) -> float:
    """(1 + #{S_k >= S}) / (K + 1), for reference scores (K,)."""
    return float((1 + np.count_nonzero(reaches(scores, score))) / (len(scores) + 1))


def tail_estimate(scores: NDArray[np.float64], score: float, *, share: float = 0.025) -> float:
    """An estimate, not a test, of a p-value too small for K reference keys to show.

    The largest reference scores are extrapolated by an exponential tail. The tail of a sum of many
    different terms falls faster than that, so the estimate is then too large; if the same sentences
    are repeated many times, it may be too large or too small. It is at least 1 / (K + 1)^2.

    Args:
        scores: reference scores, (K,).
        score: the score of the secret key.
        share: the share of the reference scores that counts as tail.
    """
    if len(scores) <= max(10, round(share * len(scores))):
        return p_value(scores, score)
    start, scale, count = _tail(scores, share=share)
    if scale <= 0.0 or score <= np.partition(scores, -count)[-count]:
        return p_value(scores, score)
    estimate = count / len(scores) * float(np.exp(-(score - start) / scale))
    return min(max(estimate, (len(scores) + 1.0) ** -2), p_value(scores, score))


def critical_score(scores: NDArray[np.float64], *, level: float) -> float:
    """The score above which the p-value is at most a level, from those of reference keys (K,).

    Where scores have few values, it lies between two of them. If too few reference keys were drawn
    to show the level, it is extrapolated along the tail of `tail_estimate`.
    """
    smallest = min(1.0, _FEWEST_ABOVE / (len(scores) + 1))
    beyond = 0.0
    if level < smallest - 1e-9 and len(scores) > 2 * _FEWEST_ABOVE:
        _, scale, _ = _tail(scores, share=0.025)
        beyond = scale * float(np.log(smallest / level))
    allowed = int(max(level, smallest) * (len(scores) + 1) + 1e-9) - 1
    ordered = np.sort(scores)
    if allowed >= len(scores):
        return float(ordered[0]) - 1.0
    critical = ordered[-allowed - 1]
    higher = ordered[np.searchsorted(ordered, critical, side="right") :]
    return float(critical + (higher[0] if len(higher) else critical)) / 2.0 + beyond


def power(scores: NDArray[np.float64], *, level: float) -> float:
    """An estimate of the power: the probability that a marked text like this one reaches the level.

    Given a marked text, the probability that a key marked it is proportional to the key's
    likelihood ratio. So if the scores are log-likelihood ratios, reference keys weighted by
    exp(S_k) represent the keys of marked texts, and the share of that weight above the critical
    score is the power.

    If too few reference keys were drawn to show the level, the critical score is extrapolated along
    the tail of `tail_estimate`, and the scores of marked texts are assumed to be normal with the
    standard deviation of the reference scores.

    Args:
        scores: log-likelihood ratios under reference keys, (K,).
        level: the p-value to reach.
    """
    if level * (len(scores) + 1) < _FEWEST_ABOVE - 1e-9:
        return _power_beyond(scores, level)
    allowed = int(level * (len(scores) + 1) + 1e-9) - 1
    ordered = np.sort(scores)[::-1]
    weights = np.exp(ordered - ordered[0])
    if allowed >= len(scores):
        return 1.0
    return float(weights[ordered > ordered[allowed]].sum() / weights.sum())


def _power_beyond(scores: NDArray[np.float64], level: float) -> float:
    """The power extrapolated below the smallest level that the scores can show."""
    smallest = _FEWEST_ABOVE / (len(scores) + 1)
    deviation = float(scores.std())
    if len(scores) <= 2 * _FEWEST_ABOVE or deviation == 0.0:
        return 0.0
    _, scale, _ = _tail(scores, share=0.025)
    shift = scale * float(np.log(smallest / level))  # how much higher the critical score lies
    normal = NormalDist()
    anchor = min(max(power(scores, level=smallest), 0.001), 0.999)
    return normal.cdf(normal.inv_cdf(anchor) - shift / deviation)


def _tail(scores: NDArray[np.float64], *, share: float) -> tuple[float, float, int]:
    """Where the tail of the largest scores begins, their mean excess over it, and their number."""
    ordered = np.sort(scores)
    count = max(10, round(share * len(scores)))
    start = float(ordered[-count - 1])
    return start, float(np.mean(ordered[-count:]) - start), count


@dataclass(slots=True)
class SequentialTest:
    """Besag and Clifford's rule: draw until h reference scores reach S, or K_max are drawn.

    If it stops at the L-th draw, p = h / L; if it ends with g < h, p = (1 + g)/(K_max + 1). Both
    are valid p-values, so a clear case may stop early without invalidating the test.

    Attributes:
        score: S.
        stop_after: h; 0 never stops early.
        limit: K_max.
        drawn: the number of reference scores so far.
        reached: the number of them that reached S.
    """

    score: float
    limit: int
    stop_after: int = 0
    drawn: int = 0
    reached: int = 0

    @property
    def stopped(self) -> bool:
        """Whether no further draw can change the p-value."""
        return self.drawn >= self.limit or (0 < self.stop_after <= self.reached)

    def update(self, scores: NDArray[np.float64]) -> None:
        """Add reference scores, in order."""
        if self.stopped:
            return
        hits = reaches(scores[: self.limit - self.drawn], self.score)
        if self.stop_after:
            remaining = self.stop_after - self.reached
            positions = np.flatnonzero(hits)
            if len(positions) >= remaining:
                self.drawn += int(positions[remaining - 1]) + 1
                self.reached = self.stop_after
                return
        self.drawn += len(hits)
        self.reached += int(np.count_nonzero(hits))

    @property
    def p_value(self) -> float:
        """The p-value so far; final once `stopped`."""
        if 0 < self.stop_after <= self.reached:
            return self.reached / self.drawn
        return (1 + self.reached) / (self.drawn + 1)
