"""The parameters of HammingMark's rule, and its presets.

The figures behind the presets are in ``docs/decisions/0013-new-parts.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar

import numpy as np

from hammingmark.errors import InputError
from hammingmark.keys.config import SentenceConfig
from hammingmark.watermarks.hamming.soft import soft_acceptance, threshold_for

SHARES = {"default": 0.38, "economical": 0.50, "robust": 0.22}
"""Acceptance rate of each preset; 1 / rate is about the number of candidates per sentence."""

MIN_ACCEPTANCE = 0.02
"""A rule that accepts a smaller share of candidates would exhaust its budget."""

BITS = 8
SOFTNESS = 1.0
PAPER_SHARE = 0.75
"""T / m of the paper, 6 of 8."""


@dataclass(frozen=True, kw_only=True)
class HammingConfig(SentenceConfig):
    """The neighbourhood in which the next sentence must lie.

    Attributes:
        bits: m, the number of secret hyperplanes.
        threshold: T, the number of bits that must match; an integer for a hard Hamming ball.
        softness: s; the larger it is, the less bits near their hyperplane count; 0 is a hard
            Hamming ball.
        residual: whether a sentence is compared with the residual of the next one, which is its
            embedding with the previous one projected out, or, as in the paper, with all of it.
    """

    method: ClassVar[str] = "hamming"
    presets: ClassVar[tuple[str, ...]] = (*SHARES, "paper")

    bits: int = BITS
    threshold: float = 6
    softness: float = 0.0
    residual: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 64:
            raise InputError(f"The number of bits must lie between 1 and 64, not {self.bits}.")
        if not 0 <= self.threshold <= self.bits:
            raise InputError(
                f"The threshold must lie between 0 and {self.bits}, not {self.threshold}."
            )
        _require_softness(self.softness)
        if self.softness == 0.0 and self.threshold != int(self.threshold):
            raise InputError(
                f"A hard Hamming ball needs an integer threshold, not {self.threshold}; a softness "
                "above 0 allows others."
            )

    @classmethod
    def from_preset(
        cls,
        preset: str = "default",
        *,
        bits: int | None = None,
        threshold: float | None = None,
        softness: float | None = None,
        residual: bool | None = None,
        **parameters: Any,
    ) -> HammingConfig:
        """A preset; parameters given replace those of the preset.

        The default threshold for residuals is the one with the preset's acceptance rate; for whole
        sentences it is the paper's three quarters of the bits, with a hard ball unless a softness
        is given.

        Raises:
            InputError: the preset does not exist, a soft ball for whole sentences has no threshold,
                or hardly any candidate would be accepted.
        """
        cls.require_preset(preset)
        paper = preset == "paper"
        m = BITS if bits is None else bits
        of_residual = not paper if residual is None else residual
        s = (SOFTNESS if of_residual and not paper else 0.0) if softness is None else softness
        _require_softness(s)
        if threshold is None:
            if of_residual:
                share = SHARES.get(preset, SHARES["default"])
                threshold = threshold_for(m, share, [0.0], softness=s)
            elif s:
                raise InputError(
                    "A soft Hamming ball on whole sentences needs an explicit threshold."
                )
            else:
                threshold = float(ceil(PAPER_SHARE * m))
        if of_residual and 0 <= threshold <= m:
            accepted = float(soft_acceptance(m, threshold, np.array([0.5]), softness=s)[0])
            if accepted < MIN_ACCEPTANCE:
                raise InputError(
                    f"With {m} bits of residuals, T = {threshold:g} has an acceptance rate of "
                    f"{accepted:.1%}; lower T, so that at least one in fifty is accepted."
                )
        return cls(bits=m, threshold=threshold, softness=s, residual=of_residual, **parameters)

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        suffix = f" (soft matching, softness {self.softness:g})" if self.softness else ""
        vector = "residual of the next sentence" if self.residual else "next sentence"
        return f"{self.threshold:g} of {self.bits} bits of the {vector} must match{suffix}"


def _require_softness(softness: float) -> None:
    if not 0.0 <= softness <= 10.0:
        raise InputError(f"The softness must lie between 0 and 10, not {softness}.")
