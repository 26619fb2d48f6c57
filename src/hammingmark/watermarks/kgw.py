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
"""The paper's, and what its authors recommend against edits."""


@dataclass(frozen=True, kw_only=True)
class KGWConfig(GreenConfig):
    """How green tokens are favoured.

    Attributes:
        delta: δ, what is added to the logit of a green token.
    """

    method: ClassVar[str] = "kgw"
    presets: ClassVar[tuple[str, ...]] = tuple(PRESETS)

    delta: float = 2.0

    def __post_init__(self) -> None:
        GreenConfig.__post_init__(self)
        if not 0.0 < self.delta <= 50.0:
            raise InputError(f"delta is a number above 0 and at most 50, not {self.delta:g}.")

    @classmethod
    def from_preset(cls, preset: str = "default", **given: Any) -> KGWConfig:
        """A preset, with what is given put in its place."""
        cls.require_preset(preset)
        return cls(**{**PRESETS[preset], **given})

    @property
    def summary(self) -> str:
        """The rule in a few words."""
        return f"logits of {self.gamma:.3g} of the tokens + {self.delta:g}, {self.lists}"


class KGW(GreenMark):
    """Green tokens, which a secret hash of them and of those before picks, get a bonus.

    δ is added to their logits before the temperature, so that they are drawn more often where the
    model leaves a choice. Detection counts them.

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
