"""PMark without the model at detection: the median of every channel is 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.config import EncoderId
from hammingmark.protocols import Capabilities
from hammingmark.records import Choice
from hammingmark.watermarks._shared.channels import ChannelConfig, ChannelMark, unpacked
from hammingmark.watermarks._shared.choices import first_accepted
from hammingmark.watermarks._shared.counts import CountedText


@dataclass(frozen=True, kw_only=True)
class PMarkOfflineConfig(ChannelConfig):
    """Channels and candidates; see `ChannelConfig`."""

    method: ClassVar[str] = "pmark-offline"

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        return f"the best of {self.N} candidates on {self.b} channels, whose median is 0"


class PMarkOffline(ChannelMark):
    """The best of N candidates lies on the required side of 0 on the most channels.

    Sentence number i of a text has a secret sign for each of b channels. Of equally good candidates
    the first is kept, which is as random as the candidates are. A sentence is valid if it lies on
    the required side of every channel.

    The published code filters channel by channel, and ignores a channel that would leave no
    candidate; the HammingMark paper describes the best candidate.

    Sentence numbers matter: if the beginning of a text is removed, or a sentence inserted, the mark
    is lost from there on.

    Args:
        key: the secret and the rule.
    """

    name = "pmark-offline"
    Config = PMarkOfflineConfig
    judges_beginnings = True
    statistics: Sequence[str] = ("soft", "hard")

    @classmethod
    def examples(cls, encoder: EncoderId) -> Mapping[str, PMarkOfflineConfig]:
        """Configurations for the contract suite."""
        return {
            "default": PMarkOfflineConfig(encoder=encoder),
            "small": PMarkOfflineConfig(encoder=encoder, b=2, N=8),
            "published": PMarkOfflineConfig(encoder=encoder, constants="published"),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """Marking sentences by their number, with a limit of trials."""
        return Capabilities(sentences=self, trials=self.config.N, at=self.at)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first of the candidates with the most channels on their required side."""
        signs = self.channels.signs(self._place)
        scores = _matches(self.channels.project(candidates), signs)
        return first_accepted(scores, scores >= self.config.b)

    def read(self, values: NDArray[np.float32]) -> CountedText:
        """Score a text by the embeddings (n, d) of its sentences, from the first on."""
        b = self.config.b
        projections = self.channels.project(values)
        signs = np.array(
            [self.channels.signs(place) for place in range(len(values))], np.bool_
        ).reshape(-1, b)
        matches = ((projections >= 0.0)[:, None] == unpacked(b)).sum(axis=2)  # under each code
        return self.channels.count(
            self,
            projections,
            first=0,
            scores=_matches(projections, signs),
            threshold=float(b),
            odds=odds_of_best(b, self.config.N)[matches],
        )


def odds_of_best(b: int, N: int) -> NDArray[np.float64]:
    """P(k of b channels are right | best of N candidates) / P(k | any), for k = 0 to b: (b + 1,).

    With the distribution function F and the probability mass f of the binomial distribution of b
    trials at 1/2, it is (F(k)^N - F(k - 1)^N) / f(k).
    """
    mass = np.array([math.comb(b, k) for k in range(b + 1)]) / 2.0**b
    best = np.cumsum(mass) ** N
    odds: NDArray[np.float64] = np.diff(best, prepend=0.0) / mass
    return odds


def _matches(projections: NDArray[np.float64], signs: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The number of channels on their required side: (n, b) and (n, b) or (b,) to (n,)."""
    valid: NDArray[np.bool_] = (projections >= 0.0) == signs
    matches: NDArray[np.float32] = valid.sum(axis=1, dtype=np.float32)
    return matches
