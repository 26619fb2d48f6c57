"""Named operating points: the rule for the next sentence.

``docs/decisions/0013-new-parts.md`` has the figures behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

from hammingmark.core.soft import soft_acceptance, threshold_for
from hammingmark.errors import InputError

PresetName = Literal["default", "economical", "robust", "paper"]

SHARES: dict[str, float] = {"economical": 0.50, "default": 0.38, "robust": 0.22}
"""Acceptance rate of each preset; 1 / rate is about the number of candidates per sentence."""

LEAST = 0.02
"""A rule that accepts fewer candidates than this would exhaust its budget."""

BITS = 8
SOFTNESS = 1.0
PAPER_SHARE = 0.75
"""T / m of the paper, 6 of 8."""


@dataclass(frozen=True, slots=True)
class Ball:
    """The neighbourhood in which the next sentence must lie.

    Attributes:
        bits: m.
        threshold: T.
        softness: s, 0 for whole bits.
        residual: whether the residual of the next sentence is compared, or the whole sentence.
    """

    bits: int
    threshold: float
    softness: float
    residual: bool


def ball(
    preset: str = "default",
    *,
    bits: int | None = None,
    threshold: float | None = None,
    softness: float | None = None,
    residual: bool | None = None,
) -> Ball:
    """A preset, with what is given put in its place.

    Where no threshold is given, it is the one at which residuals are accepted as often as the
    preset says; for whole sentences it is the paper's three quarters of the bits, which count
    whole unless a softness is given.

    Raises:
        InputError: no preset has this name, a soft ball for whole sentences lacks its threshold,
            or hardly any candidate would be accepted.
    """
    if preset not in (*SHARES, "paper"):
        known = ", ".join((*SHARES, "paper"))
        raise InputError(f"There is no preset {preset!r}; there are {known}.")
    paper = preset == "paper"
    m = BITS if bits is None else bits
    new = not paper if residual is None else residual
    s = (SOFTNESS if new and not paper else 0.0) if softness is None else softness
    if not 0.0 <= s <= 10.0:
        raise InputError(f"The softness must lie between 0 and 10, not {s}.")
    if threshold is None:
        if new:
            threshold = threshold_for(m, SHARES.get(preset, SHARES["default"]), [0.0], softness=s)
        elif s:
            raise InputError("A soft Hamming ball on whole sentences needs an explicit threshold.")
        else:
            threshold = float(ceil(PAPER_SHARE * m))
    if new and 0 <= threshold <= m:
        share = float(soft_acceptance(m, threshold, np.array([0.5]), softness=s)[0])
        if share < LEAST:
            raise InputError(
                f"With {m} bits of residuals, T = {threshold:g} has an acceptance rate of "
                f"{share:.1%}; lower T, so that at least one in fifty is accepted."
            )
    return Ball(m, threshold, s, new)
