"""KGW: green tokens get a bonus (Kirchenbauer et al., ICML 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hammingmark.errors import InputError
from hammingmark.keys.config import TokenizerId
from hammingmark.keys.key import WatermarkKey
from hammingmark.watermarks._shared.green_lists import GreenConfig, GreenMark

if TYPE_CHECKING:
    import torch

    from hammingmark.records import DecodingStep

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "minhash": {"gamma": 0.25, "prefix_length": 4, "f_scheme": "min"},
}
"""The paper's default, and what its authors recommend against edits."""


@dataclass(frozen=True, kw_only=True)
class KGWConfig(GreenConfig):
    """The green lists, and the bonus of green tokens.

    Attributes:
        delta: δ, which is added to the logit of a green token.
    """

    method: ClassVar[str] = "kgw"
    presets: ClassVar[tuple[str, ...]] = tuple(PRESETS)

    delta: float = 2.0

    def __post_init__(self) -> None:
        GreenConfig.__post_init__(self)
        if not 0.0 < self.delta <= 50.0:
            raise InputError(f"delta must be above 0 and at most 50, not {self.delta:g}.")

    @classmethod
    def from_preset(cls, preset: str = "default", **parameters: Any) -> KGWConfig:
        """A preset; parameters given replace those of the preset."""
        cls.require_preset(preset)
        return cls(**{**PRESETS[preset], **parameters})

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        return f"logits of {self.gamma:.3g} of the tokens + {self.delta:g}, {self.lists}"


class KGW(GreenMark):
    """Tokens made green by a secret hash of them and their context get a bonus.

    δ is added to their logits before the temperature, so that they are drawn more often if the
    model leaves a choice. Detection counts green tokens.

    Args:
        key: the secret and the rule.
    """

    name = "kgw"
    Config = KGWConfig

    def __init__(self, key: WatermarkKey) -> None:
        assert isinstance(key.config, KGWConfig)
        super().__init__(key)
        self.config = key.config

    @classmethod
    def examples(cls, tokenizer: TokenizerId) -> Mapping[str, KGWConfig]:
        """Configurations for the contract suite."""
        return {
            "default": KGWConfig(tokenizer=tokenizer),
            "minhash": KGWConfig.from_preset("minhash", tokenizer=tokenizer),
            "additive": KGWConfig(tokenizer=tokenizer, prefix_length=2, f_scheme="additive"),
            "skip": KGWConfig(tokenizer=tokenizer, gamma=0.3, prefix_length=3, f_scheme="skip"),
        }

    @property
    def most_valid(self) -> float:
        """γ e^δ / (1 - γ + γ e^δ)."""
        gamma, red = self.config.gamma, math.exp(-self.config.delta)
        return gamma / (gamma + (1.0 - gamma) * red)

    def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
        """Logits with the bonus, (B, V)."""
        return scores + self.config.delta * self.green(step)
