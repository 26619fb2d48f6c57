"""The parameters of the bilinear rule, and its presets.

The figures behind the presets are in
``docs/decisions/0022-likelihood-ratios-given-the-text-so-far.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

from hammingmark.errors import InputError
from hammingmark.keys.config import SentenceConfig

ACCEPTANCE = {"default": 0.21, "economical": 0.34, "robust": 0.09}
"""Acceptance rate of each preset. In stages they draw 2.6, 2.0 and 3.9 tokens per emitted
token of continuations, and more of chats."""

RANK = 32
MIN_ACCEPTANCE = 0.02
"""A rule that accepts a smaller share of candidates would exhaust its budget."""


@dataclass(frozen=True, kw_only=True)
class BilinearConfig(SentenceConfig):
    """The bilinear rule: its acceptance rate and the rank of its form.

    Attributes:
        acceptance: a, the share of sentences that satisfies the rule, on average over keys.
        rank: m, the rank of the bilinear form.
    """

    method: ClassVar[str] = "bilinear"
    presets: ClassVar[tuple[str, ...]] = tuple(ACCEPTANCE)

    acceptance: float = ACCEPTANCE["default"]
    rank: int = RANK

    def __post_init__(self) -> None:
        if not MIN_ACCEPTANCE <= self.acceptance < 1.0:
            raise InputError(
                f"The acceptance rate must lie between {MIN_ACCEPTANCE:g} and 1, not "
                f"{self.acceptance:g}; a smaller one would need too many candidates."
            )
        if not 1 <= self.rank <= 1024:
            raise InputError(f"The rank must lie between 1 and 1024, not {self.rank}.")

    @classmethod
    def from_preset(cls, preset: str = "default", **parameters: Any) -> BilinearConfig:
        """A preset; parameters given replace those of the preset."""
        cls.require_preset(preset)
        return cls(**{"acceptance": ACCEPTANCE[preset], **parameters})

    @property
    def threshold(self) -> float:
        """T = Φ⁻¹(1 - a), the score that a share a of standard normal deviates exceeds."""
        return NormalDist().inv_cdf(1.0 - self.acceptance)

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        return f"z >= {self.threshold:.2f}, which accepts {self.acceptance:.0%} of sentences"
