"""MorphMark: as much probability goes to green tokens as they can bear (Wang et al., 2025)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hammingmark.errors import InputError
from hammingmark.keys.config import TokenizerId
from hammingmark.keys.key import WatermarkKey
from hammingmark.watermarks._shared.green_lists import GreenConfig, GreenMark

if TYPE_CHECKING:
    import torch

    from hammingmark.records import DecodingStep

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {"growth": "exp", "k": 1.30},
    "linear": {"growth": "linear", "k": 1.55},
    "log": {"growth": "log", "k": 2.15},
}
"""The published k of each growth."""


@dataclass(frozen=True, kw_only=True)
class MorphMarkConfig(GreenConfig):
    """How the strength of the mark follows the green tokens' probability.

    Attributes:
        growth: how it grows with their probability P: r = e^(k P) - 1, k P, or ln(k P + 1).
        k: how fast.
        p_0: below this probability nothing is changed.
    """

    method: ClassVar[str] = "morphmark"
    presets: ClassVar[tuple[str, ...]] = tuple(PRESETS)

    growth: Literal["exp", "linear", "log"] = "exp"
    k: float = 1.30
    p_0: float = 0.15

    def __post_init__(self) -> None:
        GreenConfig.__post_init__(self)
        if not 0.0 < self.k <= 100.0:
            raise InputError(f"k is a number above 0 and at most 100, not {self.k:g}.")
        if not 0.0 <= self.p_0 < 1.0:
            raise InputError(f"p_0 is a probability below 1, not {self.p_0:g}.")

    @classmethod
    def from_preset(cls, preset: str = "default", **given: Any) -> MorphMarkConfig:
        """A preset, with what is given put in its place.

        Where a growth is given and no k, it is the published one of that growth.
        """
        cls.require_preset(preset)
        growth = given.get("growth", PRESETS[preset]["growth"])
        published = next((each for each in PRESETS.values() if each["growth"] == growth), {})
        return cls(**{**published, **given})

    @property
    def summary(self) -> str:
        """The rule in a few words."""
        return (
            f"probability moved to {self.gamma:.3g} of the tokens, {self.growth} growth with "
            f"k = {self.k:g} from P = {self.p_0:g} on, {self.lists}"
        )


class MorphMark(GreenMark):
    """Probability is moved to green tokens: more of it where they are likely already.

    With P the probability of all green tokens, r(P) (1 - P) moves from the red ones to them, each
    side keeping its proportions. Where green tokens are unlikely nothing moves, so that good tokens
    are not given up for the mark's sake.

    Args:
        key: the secret and the rule.
    """

    name = "morphmark"
    Config = MorphMarkConfig

    def __init__(self, key: WatermarkKey) -> None:
        assert isinstance(key.config, MorphMarkConfig)
        super().__init__(key)
        self.config = key.config

    @classmethod
    def examples(cls, tokenizer: TokenizerId) -> Mapping[str, MorphMarkConfig]:
        """Configurations for the contract suite."""
        return {name: MorphMarkConfig.from_preset(name, tokenizer=tokenizer) for name in PRESETS}

    @property
    def most_valid(self) -> float:
        """P + r(P) (1 - P) for P = γ."""
        gamma, k, growth = self.config.gamma, self.config.k, self.config.growth
        if gamma < self.config.p_0:
            return gamma
        linear = k * gamma
        r = {"exp": math.expm1, "linear": float, "log": math.log1p}[growth](linear)
        return gamma + min(1.0, r) * (1.0 - gamma)

    def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
        """Logits of the new distribution, (B, V)."""
        import torch

        green = self.green(step)
        P = (scores.softmax(dim=-1) * green).sum(dim=-1, keepdim=True).clamp(max=1.0)
        r = self._strength(P).where(self.config.p_0 <= P, 0.0)
        moved = r.clamp(max=1.0) * (1.0 - P)  # the red ones cannot give more than they have
        nothing = moved <= 0.0
        up = torch.log1p(moved / P).masked_fill(nothing, 0.0)
        down = torch.log1p(-(moved / (1.0 - P)).clamp(max=1.0)).masked_fill(nothing, 0.0)
        return scores + torch.where(green, up, down)

    def _strength(self, P: torch.Tensor) -> torch.Tensor:
        """r, as a function of the green tokens' probability."""
        k = self.config.k
        if self.config.growth == "exp":
            return (k * P).expm1()
        return k * P if self.config.growth == "linear" else (k * P).log1p()
