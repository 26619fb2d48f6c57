"""Continuous similarity: HammingMark without the hash (Sun et al., appendix)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hammingmark.artifacts.profile import check_profile_name, profile_for
from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId, SentenceConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import Capabilities
from hammingmark.records import Choice
from hammingmark.stats.nulls import NormalApproximation
from hammingmark.watermarks._shared.choices import first_accepted, free_choice
from hammingmark.watermarks._shared.counts import CountedText
from hammingmark.watermarks._shared.similarity import pair_cosines, share_inside, threshold_for


@dataclass(frozen=True, kw_only=True)
class ContinuousConfig(SentenceConfig):
    """The least similarity of neighbouring sentences.

    The paper's threshold fits its encoder, with which it accepts about 0.58 of candidates. For
    another encoder, ``acceptance`` gives a threshold.

    Attributes:
        threshold: the least cosine.
        gamma: the share of human neighbours that reach it.
        acceptance: the share for which the threshold was fitted, or 0.
        profile: the encoder profile from which gamma or the threshold come.
    """

    method: ClassVar[str] = "continuous"

    threshold: float = 0.63
    gamma: float
    acceptance: float = 0.0
    profile: str = ""

    def __post_init__(self) -> None:
        check_profile_name(self.profile)
        if not -1.0 < self.threshold < 1.0:
            raise InputError(f"The threshold must lie between -1 and 1, not {self.threshold:g}.")
        if not 0.0 < self.gamma < 1.0:
            raise InputError(f"gamma must lie between 0 and 1, not {self.gamma:g}.")
        if not 0.0 <= self.acceptance < 1.0:
            raise InputError(f"acceptance must lie between 0 and 1, not {self.acceptance:g}.")

    @classmethod
    def from_preset(cls, preset: str = "default", **parameters: Any) -> ContinuousConfig:
        """The paper's threshold; parameters given replace those of the preset.

        Without ``gamma`` it is measured on a profile, and with ``acceptance`` and no ``threshold``
        the threshold is fitted to it. The profile is the file ``profile``, or the one of the
        encoder that comes with the package.
        """
        cls.require_preset(preset)
        values: dict[str, Any] = {"threshold": cls.threshold, **parameters}
        acceptance = parameters.get("acceptance", 0.0)
        file = parameters.get("profile", "")
        if file or acceptance or "gamma" not in parameters:
            profile = profile_for(parameters["encoder"], file, method=cls.method)
            values["profile"] = profile.name
            if acceptance and "threshold" not in parameters:
                if not 0.0 < acceptance < 1.0:
                    raise InputError(f"acceptance must lie between 0 and 1, not {acceptance:g}.")
                values["threshold"] = threshold_for(profile.cosines, acceptance)
            if "gamma" not in parameters:
                values["gamma"] = share_inside(profile.cosines, values["threshold"], np.inf)
        return cls(**values)

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        return (
            f"cosine to the preceding sentence >= {self.threshold:g}, which {self.gamma:.1%} of "
            "natural neighbours reach"
        )


class ContinuousMark:
    """The cosine of neighbouring sentences reaches a threshold.

    The paper's control: HammingMark with the cosine itself in place of a secret hash. There is no
    key: anybody who knows the threshold can detect the mark. Neighbours are similar in natural text
    as well, so that marked and natural text are hard to distinguish.

    Args:
        key: the rule; its secret has no effect.
    """

    name = "continuous"
    Config = ContinuousConfig
    pool = 1
    judges_beginnings = False
    statistics: Sequence[str] = ("share",)

    def __init__(self, key: WatermarkKey) -> None:
        assert isinstance(key.config, ContinuousConfig)
        self.key = key
        self.config = key.config

    @classmethod
    def examples(cls, encoder: EncoderId) -> Mapping[str, ContinuousConfig]:
        """Configurations for the contract suite, with made-up values of gamma."""
        return {
            "default": ContinuousConfig(encoder=encoder, gamma=0.1),
            "lax": ContinuousConfig(encoder=encoder, threshold=0.3, gamma=0.58),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """Marking sentences, without a secret."""
        return Capabilities(sentences=self, keyless=True)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate that is similar enough, otherwise the most similar one."""
        if previous is None:
            return free_choice(len(candidates))
        scores = self._scores(np.broadcast_to(previous, candidates.shape), candidates)
        accepted = scores >= np.float32(self.config.threshold)
        return first_accepted(scores, accepted)

    def read(self, values: NDArray[np.float32]) -> CountedText:
        """Score a text by the embeddings (n, d) of its sentences."""
        scores = self._scores(values[:-1], values[1:])
        threshold, gamma = self.config.threshold, self.config.gamma
        return CountedText(
            self,
            "transition",
            scores,
            threshold=threshold,
            max_score=1.0,
            counts={"share": (scores >= np.float32(threshold)).astype(np.float64)},
            expected=gamma,
            null=NormalApproximation(len(scores), gamma, self.key.secret),
        )

    def _scores(
        self, first: NDArray[np.float32], second: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        return pair_cosines(first, second).astype(np.float32)
