"""PMark with its model at detection: medians are those of what the model would have written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId
from hammingmark.protocols import Capabilities
from hammingmark.records import Choice
from hammingmark.watermarks._shared.channels import ChannelConfig, ChannelMark, harrell_davis_median
from hammingmark.watermarks._shared.counts import CountedText


@dataclass(frozen=True, kw_only=True)
class PMarkOnlineConfig(ChannelConfig):
    """Channels and candidates; see `ChannelConfig`."""

    method: ClassVar[str] = "pmark-online"

    @property
    def summary(self) -> str:
        """The rule in a few words."""
        return f"{self.N} candidates, halved at their median on each of {self.b} channels"


class PMarkOnline(ChannelMark):
    """N candidates are halved at their median, channel by channel, on secret sides.

    The median on a channel is Harrell and Davis's over those that earlier channels left; a channel
    that would leave none leaves all. The first that is left is kept. Detection draws N sentences
    from the same model in place of each, and takes the median of every channel over all of them.

    The score of a sentence is how many channels, from the first on, have it on the right side of
    the median of all candidates. It is valid from one on: that is all that the filter promises,
    because later medians are those of fewer candidates.

    The first sentence is free: what it followed is not known at detection. Sentence numbers matter
    as they do without the model.

    Args:
        key: the secret and the rule.
    """

    name = "pmark-online"
    Config = PMarkOnlineConfig
    judges_beginnings = False
    statistics: Sequence[str] = ("soft", "hard")

    @property
    def samples(self) -> int:
        """N, as many as were drawn when the text was written."""
        return self.config.N

    @classmethod
    def examples(cls, encoder: EncoderId) -> Mapping[str, PMarkOnlineConfig]:
        """Configurations for the contract suite."""
        return {
            "default": PMarkOnlineConfig(encoder=encoder),
            "small": PMarkOnlineConfig(encoder=encoder, b=2, N=8),
            "published": PMarkOnlineConfig(encoder=encoder, constants="published"),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """A limit of trials; signs of each sentence; comparison with samples."""
        return Capabilities(sentences=self, trials=self.config.N, at=self.at, samples=self)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate that every channel leaves; at the beginning the first of all."""
        if self._place == 0:
            return Choice(0, True, (float(self.config.b),) * len(candidates))
        projections = self.channels.project(candidates)
        signs = self.channels.signs(self._place)
        left = np.arange(len(candidates))
        for channel, sign in enumerate(signs):
            values = projections[left, channel]
            kept = left[(values >= harrell_davis_median(values)) == sign]
            left = kept if len(kept) else left
        scores = _passed(projections - self._medians(projections), signs)
        index = int(left[0])
        return Choice(index, bool(scores[index] >= 1.0), tuple(map(float, scores)))

    def read(self, values: NDArray[np.float32]) -> NoReturn:
        """Refuse: without what the model would have written nothing can be said.

        Raises:
            InputError: saying what is needed.
        """
        raise InputError(
            f"The method {self.name!r} is judged with the language model that wrote the text, "
            "which draws every sentence again. Name it: detect --backend, or detector(backend=…)."
        )

    def read_sampled(
        self, values: NDArray[np.float32], samples: Sequence[NDArray[np.float32]]
    ) -> CountedText:
        """Score a text by its sentences (n, d) and by what could have stood in their place.

        Args:
            values: the embeddings of its sentences.
            samples: for each but the first, those of sentences that the model drew, (k, d); of
                none, the medians are taken to be 0.

        Raises:
            InputError: there are more or fewer samples than sentences but one.
        """
        judged = values[1:]
        if len(samples) != len(judged):
            raise InputError(
                f"Samples are needed for {len(judged)} sentences, all but the first; there are "
                f"{len(samples)}."
            )
        shape = (len(judged), self.config.b)
        medians = [self._medians(self.channels.project(each)) for each in samples]
        signs = [self.channels.signs(place) for place in range(1, len(judged) + 1)]
        distances = self.channels.project(judged) - np.array(medians, np.float64).reshape(shape)
        return self.channels.count(
            self,
            distances,
            first=1,
            scores=_passed(distances, np.array(signs, np.bool_).reshape(shape)),
            threshold=1.0,
        )

    def _medians(self, projections: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of every channel over all samples: (k, b) to (b,)."""
        if not len(projections):
            return np.zeros(self.config.b)
        return np.array([harrell_davis_median(channel) for channel in projections.T])


def _passed(distances: NDArray[np.float64], signs: NDArray[np.bool_]) -> NDArray[np.float32]:
    """How many channels, from the first on, are on the side that is asked for: (n, b) to (n,)."""
    right: NDArray[np.bool_] = (distances >= 0.0) == signs
    passed: NDArray[np.float32] = np.minimum.accumulate(right, axis=1).sum(axis=1, dtype=np.float32)
    return passed
