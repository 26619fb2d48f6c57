"""Soft Hamming balls: bits that agree to a degree.

With projections x and y of two sentences, bit i agrees to the degree

    z_i = (1 + tanh(x_i / s) tanh(y_i / s)) / 2

which is 1 or 0 far from the hyperplanes and about 1/2 near one of them. M = z_1 + ... + z_m
replaces the number of matching bits, and T need not be an integer. As the softness s goes to 0, M
becomes the paper's Match and the soft ball its Hamming ball. A soft ball requires a margin, so that
paraphrasing, which moves projections slightly, seldom breaks a match.
"""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.watermarks.hamming import theory

_STEPS = 128  # similarities at which the pmf is computed; others are interpolated
_POINTS = 256  # quadrature points of a normal variable
_BINS = 512  # bins of the degree of one bit


def agreement(
    first: NDArray[np.float32], second: NDArray[np.float32], *, softness: float
) -> NDArray[np.float32]:
    """M of pairs of sentences: two arrays of projections (..., m) to (...)."""
    m = first.shape[-1]
    if softness == 0.0:
        matches: NDArray[np.float32] = ((first >= 0) == (second >= 0)).sum(
            axis=-1, dtype=np.float32
        )
        return matches
    scale = np.float32(1.0 / softness)
    products = np.tanh(first * scale) * np.tanh(second * scale)
    summed: NDArray[np.float32] = (products.sum(axis=-1, dtype=np.float32) + np.float32(m)) / 2
    return summed


def soft_acceptance(
    m: int, T: float, probability: NDArray[np.float64], *, softness: float
) -> NDArray[np.float64]:
    """P(M >= T) over keys for sentences whose hard bits match with this probability."""
    if softness == 0.0:
        return theory.acceptance(m, _whole(T), probability)
    grid = np.linspace(0.0, 1.0, _STEPS + 1)
    return np.interp(probability, grid, _tail(m, float(T), float(softness)))


def soft_moments(
    probability: NDArray[np.float64], *, softness: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of one bit's degree of agreement over keys: (n,) each."""
    if softness == 0.0:
        return probability, np.sqrt(probability * (1.0 - probability))
    grid = np.linspace(0.0, 1.0, _STEPS + 1)
    degrees = np.arange(_BINS + 1) / _BINS
    pmf = _pmf(float(softness))
    mean = pmf @ degrees
    spread = np.sqrt(np.maximum(pmf @ degrees**2 - mean**2, 0.0))
    return np.interp(probability, grid, mean), np.interp(probability, grid, spread)


def threshold_for(m: int, share: float, cosines: npt.ArrayLike, *, softness: float) -> float:
    """The T that accepts about this share of sentences with these similarities."""
    if not 0.0 < share < 1.0:
        raise InputError(f"The share must lie between 0 and 1, not {share}.")
    probability = theory.match_probability(cosines)
    candidates = np.round(np.arange(0.0, m + 0.005, 1.0 if softness == 0.0 else 0.01), 2)
    shares = [soft_acceptance(m, T, probability, softness=softness).mean() for T in candidates]
    return float(candidates[int(np.argmin(np.abs(np.array(shares) - share)))])


def widened(softness: float, blur: float) -> float:
    """r, the softness at which paraphrased text is scored: r² = s² + π blur² / 2.

    tanh(x / s) is close to erf(x √π / 2s), whose average over a Gaussian shift of x is a wider erf:
    the mean of tanh((x + blur ε) / s) is about tanh(x / r).
    """
    return float(np.sqrt(softness**2 + np.pi * blur**2 / 2.0))


def accepted_before(
    before: NDArray[np.float32],
    after: NDArray[np.float32],
    *,
    threshold: float,
    wide: float,
    blur: float,
) -> NDArray[np.float32]:
    """Probability that M reached T before paraphrasing moved every projection by about ``blur``.

    The variance of tanh((x + blur ε) / s) is taken to first order, and M to be normal.

    Args:
        before: tanh(x / r) of the first sentences, (..., m).
        after: of the second.
        threshold: T.
        wide: r, from `widened`.
        blur: how far paraphrasing moves a projection.

    Returns:
        (...).
    """

    def variance(mean: NDArray[np.float32]) -> NDArray[np.float32]:
        left = 1.0 - mean * mean
        moved: NDArray[np.float32] = np.minimum((np.float32(blur / wide) * left) ** 2, left)
        return moved

    v, w = variance(before), variance(after)
    m = before.shape[-1]
    centre = (m + (before * after).sum(axis=-1)) / 2.0
    spread = np.sqrt((v * w + v * after * after + w * before * before).sum(axis=-1)) / 2.0
    z = (centre - np.float32(threshold)) / np.maximum(spread, np.float32(1e-3))
    # The logistic curve is within 0.01 of the normal one.
    probability: NDArray[np.float32] = 0.5 * (1.0 + np.tanh(np.float32(0.8508) * z))
    return probability


@lru_cache(maxsize=16)
def _pmf(softness: float) -> NDArray[np.float64]:
    """Distribution of one bit's degree at each similarity of the grid: (steps + 1, bins + 1)."""
    ranks = (np.arange(_POINTS) + 0.5) / _POINTS
    normal = np.array([NormalDist().inv_cdf(rank) for rank in ranks])
    x, other = normal[:, None], normal[None, :]
    sure = np.tanh(x / softness)
    rows = []
    for p in np.linspace(0.0, 1.0, _STEPS + 1):
        rho = -np.cos(np.pi * p)
        y = rho * x + np.sqrt(max(0.0, 1.0 - rho * rho)) * other
        place = ((1.0 + sure * np.tanh(y / softness)) / 2.0 * _BINS).ravel()
        low = np.minimum(place.astype(np.intp), _BINS - 1)
        above = place - low
        # Each value is split between two bins, so that binning does not change the mean.
        row = np.bincount(low, 1.0 - above, _BINS + 1) + np.bincount(low + 1, above, _BINS + 1)
        rows.append(row / row.sum())
    return np.array(rows)


def _tail(m: int, T: float, softness: float) -> NDArray[np.float64]:
    """P(M >= T) at each similarity of the grid."""
    first = int(np.ceil(T * _BINS - 1e-6))
    tail: NDArray[np.float64] = _tails(m, softness)[:, min(max(first, 0), m * _BINS + 1)]
    return tail


@lru_cache(maxsize=16)
def _tails(m: int, softness: float) -> NDArray[np.float64]:
    """P(M >= k / bins) for each k, by the m-fold convolution of one bit's pmf: (steps + 1, ·)."""
    size = m * _BINS + 1
    spectrum = np.fft.rfft(_pmf(softness), n=size, axis=1) ** m
    pmfs = np.maximum(np.fft.irfft(spectrum, n=size, axis=1), 0.0)
    above = np.cumsum(pmfs[:, ::-1], axis=1)[:, ::-1]
    tails: NDArray[np.float64] = np.clip(np.pad(above, ((0, 0), (0, 1))), 0.0, 1.0)
    return tails


def _whole(T: float) -> int:
    if int(T) != T:
        raise InputError(f"A hard Hamming ball needs an integer threshold, not {T}.")
    return int(T)
