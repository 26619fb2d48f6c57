"""Channels: orthogonal directions, with a secret side of each for every sentence of a text.

A sentence with the embedding e lies at F_j = <v_j, e> on channel j. The secret gives every channel
a sign for every sentence number: 1 requires the upper side of a median, 0 the lower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from operator import itemgetter
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.keys.config import SentenceConfig
from hammingmark.keys.key import ReferenceKeys, Secret, WatermarkKey
from hammingmark.watermarks._shared.counts import CountedText
from hammingmark.watermarks._shared.hashing import project_in_order

DoubleArray = NDArray[np.float64]
Mark = TypeVar("Mark", bound="ChannelMark")

PUBLISHED_SEED = 42
_FREE = 0.01  # the share of sentences that were not chosen; a choice among bad ones is in the odds
MOST_CHANNELS = 8  # the signs of a sentence are one byte


@dataclass(frozen=True, kw_only=True)
class ChannelConfig(SentenceConfig):
    """Parameters of methods with channels, in the paper's notation.

    Attributes:
        b: the number of channels.
        N: the number of candidates per sentence.
        K: how fast a soft count decays with the distance to the median, on the wrong side.
        tolerance: distance to the median up to which a soft count on the wrong side is 1.
        constants: ``own`` takes the directions from the key; ``published`` takes those of the
            authors' code up to their sign, which are public. The required signs come from the key
            in both cases.
    """

    b: int = 4
    N: int = 64
    K: float = 250.0
    tolerance: float = 0.001
    constants: Literal["own", "published"] = "own"

    def __post_init__(self) -> None:
        most = min(MOST_CHANNELS, self.encoder.dimension)
        if not 1 <= self.b <= most:
            raise InputError(f"b must lie between 1 and {most} channels, not {self.b}.")
        if not 2 <= self.N <= 4096:
            raise InputError(f"N must lie between 2 and 4096 candidates, not {self.N}.")
        if not 0.0 < self.K < float("inf"):
            raise InputError(f"K must be a finite number above 0, not {self.K:g}.")
        if not 0.0 <= self.tolerance < 1.0:
            raise InputError(f"The tolerance must lie between 0 and 1, not {self.tolerance:g}.")


class Channels:
    """The directions of one key, and its signs by sentence number.

    Args:
        secret: the key's secret.
        config: how many channels there are, and where their directions come from.

    Attributes:
        directions: v, (b, d).
    """

    def __init__(self, secret: Secret, config: ChannelConfig) -> None:
        self._secret = secret
        self._config = config
        size = config.encoder.dimension
        if config.constants == "published":
            normals = np.random.default_rng(PUBLISHED_SEED).standard_normal((size, config.b)).T
        else:
            deviates = secret.normals("channels", config.b * size)
            normals = deviates.reshape(config.b, size).astype(np.float64)
        self.directions = orthonormal(normals)

    def __repr__(self) -> str:
        return f"Channels(b={self._config.b})"

    def signs(self, place: int) -> NDArray[np.bool_]:
        """The required sides of the sentence with this number, counted from 0: (b,)."""
        signs: NDArray[np.bool_] = unpacked(self._config.b)[self._code(place)]
        return signs

    def project(self, rows: NDArray[np.float32]) -> DoubleArray:
        """F of every sentence, independent of the other rows: (n, d) to (n, b)."""
        return project_in_order(rows, self.directions)[:, 0].astype(np.float64)

    def count(
        self,
        mark: object,
        distances: DoubleArray,
        *,
        first: int,
        scores: NDArray[np.float32],
        threshold: float,
        odds: DoubleArray,
    ) -> CountedText:
        """Score a text by how far its sentences lie above the medians, F - m.

        The null distribution is exact over signs, given the text, the directions and the medians,
        none of which depends on a sign.

        Args:
            mark: the method under its key.
            distances: F - m, (u, b).
            first: number of the first of these sentences.
            scores: what the method compares with its threshold, (u,).
            threshold: the smallest score of a valid sentence.
            odds: how much more likely sentences that were chosen are under each of 2^b codes than
                others, (u, 2^b); to estimate the power.
        """
        config = self._config
        tables = counts_by_signs(distances, K=config.K, tolerance=config.tolerance)
        own = np.array([self._code(first + i) for i in range(len(distances))], np.int64)
        return CountedText(
            mark,
            "sentence",
            scores,
            threshold,
            float(config.b),
            {name: _look_up(table, own[:, None])[:, 0] for name, table in tables.items()},
            0.5,
            weight=config.b,
            draws=partial(self._reference_counts, {**tables, "odds": odds}),
            context_units=0,
            free=_FREE,
            likelihood=itemgetter("odds"),
            begins_text=first == 0,
        )

    def _code(self, place: int) -> int:
        (byte,) = self._secret.stream("signs", 1, index=place)
        return byte % (1 << self._config.b)

    def _reference_counts(
        self, tables: Mapping[str, DoubleArray]
    ) -> Iterator[Mapping[str, DoubleArray]]:
        """Counts and odds under other signs, block after block: (u, k)."""
        size, units = ReferenceKeys.block, len(next(iter(tables.values())))
        for block in count():
            stream = self._secret.stream("reference signs", units * size, index=block)
            codes = np.frombuffer(stream, np.uint8).reshape(units, size) % (1 << self._config.b)
            yield {name: _look_up(table, codes) for name, table in tables.items()}


class ChannelMark:
    """Base class of methods with channels: a key, its channels, and the number of a sentence.

    Args:
        key: the secret and the rule.
    """

    def __init__(self, key: WatermarkKey) -> None:
        assert isinstance(key.config, ChannelConfig)
        self.key = key
        self.config = key.config
        self.pool = key.config.N
        self.channels = key.expand_once(channels_of)
        self._place = 0

    def at(self: Mark, place: int) -> Mark:
        """The same method, for the sentence with this number."""
        view = copy(self)
        view._place = place
        view.__dict__.pop("capabilities", None)  # a cached record names this mark, not the view
        return view


def channels_of(key: WatermarkKey) -> Channels:
    """The channels of a key."""
    assert isinstance(key.config, ChannelConfig)
    return Channels(key.secret, key.config)


def orthonormal(rows: DoubleArray) -> NDArray[np.float32]:
    """Orthonormal rows that span the same subspaces, in order: (b, d) to (b, d).

    Computed by Gram-Schmidt in double precision, always in the same order and rounded once, so that
    they are the same on every machine, unlike LAPACK's. Up to their sign they are the Q of the QR
    decomposition of the transposed rows.
    """
    basis = np.array(rows, np.float64, order="C")
    for j in range(len(basis)):
        for _ in range(2):  # the second pass removes what rounding left
            for i in range(j):
                basis[j] -= (basis[i] * basis[j]).sum() * basis[i]
        basis[j] /= np.sqrt((basis[j] * basis[j]).sum())
    return basis.astype(np.float32)


def unpacked(b: int) -> NDArray[np.bool_]:
    """The signs of every code, the first channel's in the lowest bit: (2^b, b)."""
    bits: NDArray[np.bool_] = (np.arange(1 << b)[:, None] >> np.arange(b)) & 1 == 1
    return bits


def counts_by_signs(
    distances: DoubleArray, *, K: float, tolerance: float
) -> dict[str, DoubleArray]:
    """The count of every sentence under each of 2^b codes, by statistic: (u, 2^b) each.

    ``hard`` is the share of channels on the required side. ``soft`` is the mean over channels of 1
    on that side, or within the tolerance of it, and exp(-K |F - m|) elsewhere.

    Args:
        distances: F - m, (u, b).
        K: decay of a soft count; see `ChannelConfig`.
        tolerance: see `ChannelConfig`.
    """
    signs = unpacked(distances.shape[1])
    decayed = np.exp(-K * np.abs(distances))
    upper = np.where(distances >= -tolerance, 1.0, decayed)
    lower = np.where(distances <= tolerance, 1.0, decayed)
    above = distances >= 0.0
    return {
        "soft": np.where(signs, upper[:, None], lower[:, None]).mean(axis=2),
        "hard": (above[:, None] == signs).mean(axis=2),
    }


def _look_up(table: DoubleArray, codes: NDArray[np.integer]) -> DoubleArray:
    """The counts of units (u, 2^b) under codes (u, k): (u, k)."""
    return np.take_along_axis(table, codes.astype(np.int64), axis=1)


_NODES = 24  # of the quadrature, for each order statistic
_DIGITS = 13  # of a weight, which are the same on every machine


def harrell_davis_median(values: NDArray[np.float64]) -> float:
    """The Harrell-Davis (1982) median of at least one value, (n,).

    The weight of the i-th smallest value is the probability of [(i - 1) / n, i / n] under a Beta
    distribution with both parameters (n + 1) / 2.
    """
    ordered = np.sort(values)
    median = float((harrell_davis_weights(len(ordered)) * ordered).sum())
    # The rounded weights sum to one up to the last digits; the median of equal values is exact.
    return min(max(median, float(ordered[0])), float(ordered[-1]))


@lru_cache(maxsize=512)
def harrell_davis_weights(n: int) -> NDArray[np.float64]:
    """The weights of n order statistics in their median: (n,).

    With x = (1 - cos φ) / 2 the density becomes sin^n φ up to a constant, which is smooth at both
    ends for every n. Each weight is its Gauss-Legendre integral over one interval, divided by the
    sum of all integrals.
    """
    edges = np.arccos(1.0 - 2.0 * np.arange(n + 1) / n)
    nodes, shares = np.polynomial.legendre.leggauss(_NODES)
    middle, half = (edges[1:] + edges[:-1]) / 2.0, (edges[1:] - edges[:-1]) / 2.0
    angles = middle[:, None] + half[:, None] * nodes
    pieces = half * (shares * np.sin(angles) ** n).sum(axis=1)
    pieces += pieces[::-1]  # symmetric to the last digit
    weights: NDArray[np.float64] = np.round(pieces / pieces.sum(), _DIGITS)
    weights.setflags(write=False)
    return weights
