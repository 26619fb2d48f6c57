"""Choices among candidates by their scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hammingmark.records import Choice


def first_accepted(scores: NDArray[np.floating], accepted: NDArray[np.bool_]) -> Choice:
    """The first accepted candidate, otherwise the first with the largest score.

    Args:
        scores: of the candidates, (c,).
        accepted: which candidates the rule accepts, (c,).
    """
    index = int(np.argmax(accepted if accepted.any() else scores))
    return Choice(index, bool(accepted[index]), tuple(map(float, scores)))


def free_choice(count: int, *, score: float = 1.0) -> Choice:
    """The first of ``count`` candidates for a first sentence that is free; all have this score."""
    return Choice(0, True, (score,) * count)
