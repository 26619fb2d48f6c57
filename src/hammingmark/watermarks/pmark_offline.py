"""PMark without its model at detection: the median of every channel is taken to be 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hammingmark.keys.config import EncoderId
from hammingmark.protocols import Capabilities
from hammingmark.records import Choice
from hammingmark.watermarks._shared.channels import ChannelConfig, ChannelMark
from hammingmark.watermarks._shared.counts import CountedText


@dataclass(frozen=True, kw_only=True)
class PMarkOfflineConfig(ChannelConfig):
    """Channels and candidates; see `ChannelConfig`."""

    method: ClassVar[str] = "pmark-offline"

    @property
    def summary(self) -> str:
        """The rule in a few words."""
        return f"the best of {self.N} candidates on {self.b} channels, whose median is 0"


class PMarkOffline(ChannelMark):
    """Of N candidates the one on the asked sides of most channels is kept; their median is 0.

    Sentence number i of a text has a secret sign for each of b channels. Among equals the first
    is kept, which is as random as the candidates are. A sentence is valid when every channel is
    on the side that is asked for.

    The published code filters channel by channel and keeps the set as it was where a channel
    empties it; the best candidate is what the HammingMark paper describes.

    Sentence numbers matter: a text whose beginning was cut off, or into which a sentence was put,
    shows no mark from there on.

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
        """A limit of trials; each sentence has signs of its own."""
        return Capabilities(sentences=self, trials=self.config.N, at=self.at)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The candidate with most channels right, the first of them."""
        signs = self.channels.signs(self._place)
        scores = _matches(self.channels.project(candidates), signs)
        index = int(np.argmax(scores))
        return Choice(index, bool(scores[index] >= self.config.b), tuple(map(float, scores)))

    def read(self, values: NDArray[np.float32]) -> CountedText:
        """Score a text by the embeddings (n, d) of its sentences, from the first on."""
        projections = self.channels.project(values)
        signs = np.array(
            [self.channels.signs(place) for place in range(len(values))], np.bool_
        ).reshape(-1, self.config.b)
        return self.channels.count(
            self,
            projections,
            first=0,
            scores=_matches(projections, signs),
            threshold=float(self.config.b),
        )


def _matches(projections: NDArray[np.float64], signs: NDArray[np.bool_]) -> NDArray[np.float32]:
    """How many channels are on the side that is asked for: (n, b) to (n,)."""
    right: NDArray[np.bool_] = (projections >= 0.0) == signs
    matches: NDArray[np.float32] = right.sum(axis=1, dtype=np.float32)
    return matches
