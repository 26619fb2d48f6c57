"""Continuous similarity: HammingMark's centre without its hash (Sun et al., appendix)."""

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
from hammingmark.watermarks._shared.counts import CountedText
from hammingmark.watermarks._shared.similarity import pair_cosines, share_inside, threshold_for


@dataclass(frozen=True, kw_only=True)
class ContinuousConfig(SentenceConfig):
    """How similar neighbouring sentences must be at least.

    The paper's threshold fits its encoder, under which it accepts about 0.58 of candidates. With
    another one ``acceptance`` finds a threshold.

    Attributes:
        threshold: the least cosine.
        gamma: the share of human neighbours that reach it.
        acceptance: the share for which the threshold was chosen; 0 where it was not.
        profile: of the encoder, where gamma or the threshold come from.
    """

    method: ClassVar[str] = "continuous"

    threshold: float = 0.63
    gamma: float
    acceptance: float = 0.0
    profile: str = ""

    def __post_init__(self) -> None:
        check_profile_name(self.profile)
        if not -1.0 < self.threshold < 1.0:
            raise InputError(f"The threshold lies between -1 and 1, not at {self.threshold:g}.")
        if not 0.0 < self.gamma < 1.0:
            raise InputError(f"gamma lies between 0 and 1, not at {self.gamma:g}.")
        if not 0.0 <= self.acceptance < 1.0:
            raise InputError(f"The acceptance lies between 0 and 1, not at {self.acceptance:g}.")

    @classmethod
    def from_preset(cls, preset: str = "default", **given: Any) -> ContinuousConfig:
        """The paper's threshold, with what is given put in its place.

        What is not given of gamma and, where ``acceptance`` is, of the threshold comes from
        ``profile``, a file, or from the encoder's that comes with the package.
        """
        cls.require_preset(preset)
        chosen: dict[str, Any] = {"threshold": cls.threshold, **given}
        wanted = given.get("acceptance", 0.0)
        file = given.get("profile", "")
        if file or wanted or "gamma" not in given:
            found = profile_for(given["encoder"], file, method=cls.method)
            chosen["profile"] = found.name
            if wanted and "threshold" not in given:
                if not 0.0 < wanted < 1.0:
                    raise InputError(f"The acceptance lies between 0 and 1, not at {wanted:g}.")
                chosen["threshold"] = threshold_for(found.cosines, wanted)
            if "gamma" not in given:
                chosen["gamma"] = share_inside(found.cosines, chosen["threshold"], np.inf)
        return cls(**chosen)

    @property
    def summary(self) -> str:
        """The rule in a few words."""
        return (
            f"cosine to the preceding sentence >= {self.threshold:g}, which {self.gamma:.1%} of "
            "natural neighbours reach"
        )


class ContinuousMark:
    """The next sentence is at least as similar to the preceding one as a threshold says.

    The paper's control: what is left of HammingMark where the cosine itself is compared, and not
    a secret hash. There is no key: whoever knows the threshold can find the mark. Neighbours are
    similar in natural text as well, so that the two are hard to tell apart.

    Args:
        key: the rule; its secret decides nothing.
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
        """Configurations for the contract suite; gamma stands for a measured one."""
        return {
            "default": ContinuousConfig(encoder=encoder, gamma=0.1),
            "lax": ContinuousConfig(encoder=encoder, threshold=0.3, gamma=0.58),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """It rests on no secret."""
        return Capabilities(sentences=self, keyless=True)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate that is similar enough, otherwise the most similar one."""
        if previous is None:
            return Choice(0, True, (1.0,) * len(candidates))
        scores = self._scores(np.broadcast_to(previous, candidates.shape), candidates)
        accepted = scores >= np.float32(self.config.threshold)
        index = int(np.argmax(accepted if accepted.any() else scores))
        return Choice(index, bool(accepted[index]), tuple(map(float, scores)))

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
