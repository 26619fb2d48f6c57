"""MorphMark: the likelier green tokens are, the more probability they get (Wang et al., 2025)."""

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
    """The green lists, and the strength r(P) of the mark by the green tokens' probability P.

    Attributes:
        growth: how r grows with P: r = e^(k P) - 1 (``exp``), k P (``linear``) or ln(k P + 1)
            (``log``).
        k: how fast it grows.
        p_0: the value of P below which nothing is changed.
    """

    method: ClassVar[str] = "morphmark"
    presets: ClassVar[tuple[str, ...]] = tuple(PRESETS)

    growth: Literal["exp", "linear", "log"] = "exp"
    k: float = 1.30
    p_0: float = 0.15

    def __post_init__(self) -> None:
        GreenConfig.__post_init__(self)
        if not 0.0 < self.k <= 100.0:
            raise InputError(f"k must be above 0 and at most 100, not {self.k:g}.")
        if not 0.0 <= self.p_0 < 1.0:
            raise InputError(f"p_0 must be at least 0 and below 1, not {self.p_0:g}.")

    @classmethod
    def from_preset(cls, preset: str = "default", **parameters: Any) -> MorphMarkConfig:
        """A preset; parameters given replace those of the preset.

        With a growth and no k, the published k of that growth is used.
        """
        cls.require_preset(preset)
        growth = parameters.get("growth", PRESETS[preset]["growth"])
        published = next((values for values in PRESETS.values() if values["growth"] == growth), {})
        return cls(**{**published, **parameters})

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        return (
            f"probability moved to {self.gamma:.3g} of the tokens, {self.growth} growth with "
            f"k = {self.k:g} from P = {self.p_0:g} on, {self.lists}"
        )


class MorphMark(GreenMark):
    """Probability moves to green tokens, the more so the likelier they already are.

    With P the probability of all green tokens, r(P) (1 - P) moves from the red tokens to them, and
    each side keeps its proportions. If green tokens are unlikely nothing moves, so that the mark
    does not replace much better tokens.

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
        moved = r.clamp(max=1.0) * (1.0 - P)  # at most all of the red tokens' probability
        unchanged = moved <= 0.0
        up = torch.log1p(moved / P).masked_fill(unchanged, 0.0)
        down = torch.log1p(-(moved / (1.0 - P)).clamp(max=1.0)).masked_fill(unchanged, 0.0)
        return scores + torch.where(green, up, down)

    def _strength(self, P: torch.Tensor) -> torch.Tensor:
        """r as a function of the green tokens' probability P: (B, 1) to (B, 1)."""
        k = self.config.k
        if self.config.growth == "exp":
            return (k * P).expm1()
        return k * P if self.config.growth == "linear" else (k * P).log1p()
