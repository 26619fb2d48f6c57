"""The rule of the bilinear form: its parameters, and named choices of them.

``docs/decisions/0022-likelihood-ratios-given-the-text-so-far.md`` has the figures behind presets.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

from hammingmark.errors import InputError
from hammingmark.keys.config import SentenceConfig

ACCEPTANCE = {"default": 0.21, "economical": 0.34, "robust": 0.09}
"""Acceptance rate of each preset, for 2.6, 2.0 and 3.9 drawn over emitted tokens in stages."""

RANK = 32
LEAST = 0.02
"""A rule that accepts fewer candidates than this would exhaust its budget."""


@dataclass(frozen=True, kw_only=True)
class BilinearConfig(SentenceConfig):
    """How far on its side the next sentence must lie.

    Attributes:
        acceptance: the share of sentences that satisfies the rule, on average over keys.
        rank: m, the rank of the bilinear form.
    """

    method: ClassVar[str] = "bilinear"
    presets: ClassVar[tuple[str, ...]] = tuple(ACCEPTANCE)

    acceptance: float = ACCEPTANCE["default"]
    rank: int = RANK

    def __post_init__(self) -> None:
        if not LEAST <= self.acceptance < 1.0:
            raise InputError(
                f"An acceptance rate lies between {LEAST:g} and 1, not at {self.acceptance:g}: a "
                "smaller one would take too many candidates."
            )
        if not 1 <= self.rank <= 1024:
            raise InputError(f"The rank lies between 1 and 1024, not at {self.rank}.")

    @classmethod
    def from_preset(cls, preset: str = "default", **given: Any) -> BilinearConfig:
        """A preset, with what is given put in its place."""
        cls.require_preset(preset)
        return cls(**{"acceptance": ACCEPTANCE[preset], **given})

    @property
    def threshold(self) -> float:
        """T, the normal quantile that the share above leaves on its right."""
        return NormalDist().inv_cdf(1.0 - self.acceptance)

    @property
    def summary(self) -> str:
        """The rule in a few words."""
        return f"z >= {self.threshold:.2f}, which accepts {self.acceptance:.0%} of sentences"
