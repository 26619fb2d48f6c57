"""Marked passages: the best windows of a sequence of increments."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


class WindowScan:
    """The largest sum over any window, under many keys at once, chunk by chunk along the text.

    Attributes:
        best: largest sum over any window so far, (k,); that of the empty window is zero.
    """

    def __init__(self) -> None:
        self.best: NDArray[np.float64] = np.zeros(())
        self._running: NDArray[np.float64] = np.zeros(())

    def update(self, increments: NDArray[np.float64]) -> None:
        """Continue with the increments of the next units, (c, k)."""
        for row in increments:
            self._running = np.maximum(self._running + row, 0.0)
            self.best = np.maximum(self.best, self._running)


def scan_along(
    chunks: Iterable[NDArray[np.float64]], centre: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The sum over a whole text and the best over any window of it, under k keys: (k,) each.

    Args:
        chunks: increments chunk by chunk along the text, (c, k).
        centre: what is subtracted from each before windows are compared, (u,).
    """
    total: NDArray[np.float64] = np.zeros(())
    scan = WindowScan()
    first = 0
    for values in chunks:
        total = total + values.sum(axis=0)
        scan.update(values - centre[first : first + len(values), None])
        first += len(values)
    return total, scan.best


def best_windows(increments: NDArray[np.float64]) -> list[tuple[int, int, float]]:
    """All maximal scoring windows of one sequence (n,), best first: begin, end (exclusive), sum.

    They are found by Ruzzo and Tompa's algorithm in linear time. They are disjoint, none can be
    improved by extending or shortening it, and the first has the largest sum over any window.
    """
    begins: list[int] = []
    ends: list[int] = []
    before: list[float] = []  # cumulative sum before each window
    after: list[float] = []  # cumulative sum at its end
    lower: list[int] = []  # nearest earlier window with a smaller `before`
    total = 0.0
    for t, increment in enumerate(increments):
        left = total
        total += float(increment)
        if increment <= 0:
            continue
        begin, end = t, t + 1
        while True:
            j = len(begins) - 1
            while j >= 0 and before[j] >= left:
                j = lower[j]
            if j < 0 or after[j] >= total:
                begins.append(begin)
                ends.append(end)
                before.append(left)
                after.append(total)
                lower.append(j)
                break
            begin, left = begins[j], before[j]
            del begins[j:], ends[j:], before[j:], after[j:], lower[j:]
    windows = [
        (begin, end, high - low)
        for begin, end, low, high in zip(begins, ends, before, after, strict=True)
    ]
    return sorted(windows, key=lambda window: (-window[2], window[0]))
