"""Clusters of directions, and the directions in which sentences differ most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DoubleArray = NDArray[np.float64]

_MOST_STEPS = 300


def unit_rows(rows: DoubleArray) -> DoubleArray:
    """Rows at length one: (n, d)."""
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    units: DoubleArray = rows / lengths
    return units


def spherical_centres(units: DoubleArray, begin: DoubleArray) -> DoubleArray:
    """Spherical k-means from centres to begin with: unit rows (n, d) and (k, d) to (k, d).

    It goes on until no row changes its cluster, by cosine.
    """
    centres = unit_rows(begin)
    nearest = np.full(len(units), -1)
    for _ in range(_MOST_STEPS):
        now = np.argmax(units @ centres.T, axis=1)
        if np.array_equal(now, nearest):
            break
        nearest = now
        # A cluster that has lost all of its rows stays where it is.
        held = np.unique(nearest)
        centres[held] = unit_rows(np.stack([units[nearest == each].sum(axis=0) for each in held]))
    return centres


def principal_components(rows: NDArray[np.float32], number: int) -> tuple[DoubleArray, DoubleArray]:
    """The mean (d,) of rows (n, d), and their leading principal components, (c, d).

    The largest number of each is positive, which makes them unique.
    """
    mean = rows.mean(axis=0, dtype=np.float64)
    rest = rows - mean
    _, vectors = np.linalg.eigh(rest.T @ rest)
    found = vectors.T[::-1][:number]
    largest = np.take_along_axis(found, np.abs(found).argmax(axis=1)[:, None], axis=1)
    return mean, found * np.sign(largest)
