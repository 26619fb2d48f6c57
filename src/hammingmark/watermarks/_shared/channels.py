"""Channels: directions at right angles, on whose sides a secret places each sentence of a text.

A sentence with the embedding e lies at F_j = <v_j, e> on channel j. The secret has a sign for
every channel of every sentence number: 1 asks for the upper side of a median, 0 for the lower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
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
MOST_CHANNELS = 8  # the signs of a sentence are one byte


@dataclass(frozen=True, kw_only=True)
class ChannelConfig(SentenceConfig):
    """What methods with channels can be told, in the letters of their paper.

    Attributes:
        b: channels.
        N: candidates per sentence.
        K: how fast a soft count decays with the distance to the median, on its wrong side.
        tolerance: as near as this to the median, the wrong side counts as the right one in soft
            counts.
        constants: ``own`` takes the directions from the key; ``published`` takes those of the
            authors' code up to their sign, which anybody knows. The signs that are asked for come
            from the key either way.
    """

    b: int = 4
    N: int = 64
    K: float = 250.0
    tolerance: float = 0.001
    constants: Literal["own", "published"] = "own"

    def __post_init__(self) -> None:
        most = min(MOST_CHANNELS, self.encoder.dimension)
        if not 1 <= self.b <= most:
            raise InputError(f"There are between 1 and {most} channels, not {self.b}.")
        if not 2 <= self.N <= 4096:
            raise InputError(f"N lies between 2 and 4096 candidates, not at {self.N}.")
        if not 0.0 < self.K < float("inf"):
            raise InputError(f"K is a number above 0, not {self.K:g}.")
        if not 0.0 <= self.tolerance < 1.0:
            raise InputError(f"The tolerance lies between 0 and 1, not at {self.tolerance:g}.")


class Channels:
    """The directions, and the signs by sentence number, of one key.

    Args:
        secret: of the key.
        config: how many there are, and whose.

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
            drawn = secret.normals("channels", config.b * size)
            normals = drawn.reshape(config.b, size).astype(np.float64)
        self.directions = orthonormal(normals)

    def __repr__(self) -> str:
        return f"Channels(b={self._config.b})"

    def signs(self, place: int) -> NDArray[np.bool_]:
        """What is asked of the sentence with this number, counted from 0: (b,)."""
        signs: NDArray[np.bool_] = unpacked(self._config.b)[self._code(place)]
        return signs

    def project(self, rows: NDArray[np.float32]) -> DoubleArray:
        """F of every sentence, whatever else is projected beside it: (n, d) to (n, b)."""
        return project_in_order(rows, self.directions)[:, 0].astype(np.float64)

    def count(
        self,
        mark: object,
        distances: DoubleArray,
        *,
        first: int,
        scores: NDArray[np.float32],
        threshold: float,
    ) -> CountedText:
        """A text by how far its sentences lie above the medians, F - m.

        The null distribution is exact over signs, given the text, the directions and the medians,
        none of which knows a sign.

        Args:
            mark: the method under its key.
            distances: (u, b).
            first: number of the first of these sentences.
            scores: what the method's rule looks at, (u,).
            threshold: from which a sentence is valid.
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
            {name: _taken(table, own[:, None])[:, 0] for name, table in tables.items()},
            0.5,
            weight=config.b,
            draws=partial(self._reference_counts, tables),
            rests_on=0,
        )

    def _code(self, place: int) -> int:
        (byte,) = self._secret.stream("signs", 1, index=place)
        return byte % (1 << self._config.b)

    def _reference_counts(
        self, tables: Mapping[str, DoubleArray]
    ) -> Iterator[Mapping[str, DoubleArray]]:
        """Counts under block after block of other signs, (u, k)."""
        many, units = ReferenceKeys.block, len(next(iter(tables.values())))
        for block in count():
            drawn = self._secret.stream("reference signs", units * many, index=block)
            codes = np.frombuffer(drawn, np.uint8).reshape(units, many) % (1 << self._config.b)
            yield {name: _taken(table, codes) for name, table in tables.items()}


class ChannelMark:
    """What methods with channels have in common: a key, its channels, and a place in the text.

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
        """The same, asked about the sentence with this number."""
        view = copy(self)
        view._place = place
        return view


def channels_of(key: WatermarkKey) -> Channels:
    """The channels of a key."""
    assert isinstance(key.config, ChannelConfig)
    return Channels(key.secret, key.config)


def orthonormal(rows: DoubleArray) -> NDArray[np.float32]:
    """Rows at right angles and of length one that span the same, in order: (b, d).

    By Gram and Schmidt in double precision, always in the same order and rounded once, so that
    they are the same on every machine, which LAPACK's are not. Up to their sign they are the Q of
    the QR decomposition of the transposed rows.
    """
    found = np.array(rows, np.float64, order="C")
    for j in range(len(found)):
        for _ in range(2):  # once more takes off what rounding left
            for i in range(j):
                found[j] -= (found[i] * found[j]).sum() * found[i]
        found[j] /= np.sqrt((found[j] * found[j]).sum())
    return found.astype(np.float32)


def unpacked(b: int) -> NDArray[np.bool_]:
    """The signs of every code, the first channel's in the lowest bit: (2^b, b)."""
    bits: NDArray[np.bool_] = (np.arange(1 << b)[:, None] >> np.arange(b)) & 1 == 1
    return bits


def counts_by_signs(
    distances: DoubleArray, *, K: float, tolerance: float
) -> dict[str, DoubleArray]:
    """What every sentence would count for under each of 2^b codes, by statistic: (u, 2^b) each.

    ``hard`` is the share of channels on the side that is asked for. ``soft`` is the mean over
    channels of 1 on that side, or within the tolerance of it, and exp(-K |F - m|) elsewhere.

    Args:
        distances: F - m, (u, b).
        K: decay of a soft count.
        tolerance: see above.
    """
    signs = unpacked(distances.shape[1])
    faded = np.exp(-K * np.abs(distances))
    upper = np.where(distances >= -tolerance, 1.0, faded)
    lower = np.where(distances <= tolerance, 1.0, faded)
    above = distances >= 0.0
    return {
        "soft": np.where(signs, upper[:, None], lower[:, None]).mean(axis=2),
        "hard": (above[:, None] == signs).mean(axis=2),
    }


def _taken(table: DoubleArray, codes: NDArray[np.integer]) -> DoubleArray:
    return np.take_along_axis(table, codes.astype(np.int64), axis=1)


_NODES = 24  # of the quadrature, for each order statistic
_DIGITS = 13  # that the weights have in common on every machine


def harrell_davis_median(values: NDArray[np.float64]) -> float:
    """The median of at least one value, (n,), after Harrell and Davis (1982).

    The i-th smallest has the weight that a Beta distribution with both parameters (n + 1) / 2
    has between (i - 1) / n and i / n.
    """
    ordered = np.sort(values)
    median = float((harrell_davis_weights(len(ordered)) * ordered).sum())
    # Weights that are rounded add up to one but for the last digits; equal values are their median.
    return min(max(median, float(ordered[0])), float(ordered[-1]))


@lru_cache(maxsize=512)
def harrell_davis_weights(n: int) -> NDArray[np.float64]:
    """The weights of n order statistics in their median: (n,).

    With x = (1 - cos φ) / 2 the density becomes sin^n φ, without a constant and smooth at both
    ends for every n. Each weight is its integral by Gauss and Legendre over one interval, divided
    by the sum of all.
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
