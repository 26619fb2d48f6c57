"""PMark with the model at detection: medians are those of samples of the model."""

from __future__ import annotations

import math
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
from hammingmark.stats.normal import log_tail
from hammingmark.watermarks._shared.channels import (
    ChannelConfig,
    ChannelMark,
    harrell_davis_median,
    unpacked,
)
from hammingmark.watermarks._shared.choices import free_choice
from hammingmark.watermarks._shared.counts import CountedText


@dataclass(frozen=True, kw_only=True)
class PMarkOnlineConfig(ChannelConfig):
    """Channels and candidates; see `ChannelConfig`."""

    method: ClassVar[str] = "pmark-online"

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        return f"{self.N} candidates, halved at their median on each of {self.b} channels"


class PMarkOnline(ChannelMark):
    """N candidates are halved at their median, channel by channel, on secret sides.

    On each channel the median is the Harrell-Davis median of the candidates that remain after the
    earlier channels; a channel that would remove all of them removes none. The first remaining
    candidate is kept. For each sentence, detection draws N sentences from the same model in its
    place, and takes the median of every channel over all of them.

    The score of a sentence is the number of successive channels, from the first on, on which it
    lies on the required side of the median of all candidates. A sentence is valid if its score is
    at least one; the filter guarantees no more, because later medians are those of fewer
    candidates.

    The first sentence is free, because the text before it is not known at detection. Sentence
    numbers matter as in the method without the model.

    Args:
        key: the secret and the rule.
    """

    name = "pmark-online"
    Config = PMarkOnlineConfig
    judges_beginnings = False
    statistics: Sequence[str] = ("soft", "hard")

    @property
    def samples(self) -> int:
        """N, the number of candidates at generation."""
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
        """Marking sentences by their number, with a limit of trials; comparison with samples."""
        return Capabilities(sentences=self, trials=self.config.N, at=self.at, samples=self)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate that remains after every channel; the first of all at place 0."""
        if self._place == 0:
            return free_choice(len(candidates), score=float(self.config.b))
        projections = self.channels.project(candidates)
        signs = self.channels.signs(self._place)
        remaining = np.arange(len(candidates))
        for channel, sign in enumerate(signs):
            values = projections[remaining, channel]
            valid = remaining[(values >= harrell_davis_median(values)) == sign]
            remaining = valid if len(valid) else remaining
        scores = _leading_matches(projections - self._medians(projections), signs)
        index = int(remaining[0])
        return Choice(index, bool(scores[index] >= 1.0), tuple(map(float, scores)))

    def read(self, values: NDArray[np.float32]) -> NoReturn:
        """Refuse, because the medians are not known without samples of the model.

        Raises:
            InputError: always, with what is needed.
        """
        raise InputError(
            f"For detection the method {self.name!r} needs the language model that wrote the text, "
            "to draw every sentence again. Name it: detect --backend, or detector(backend=…)."
        )

    def read_sampled(
        self, values: NDArray[np.float32], samples: Sequence[NDArray[np.float32]]
    ) -> CountedText:
        """Score a text by its sentences and by samples of the model in their place.

        Args:
            values: the embeddings (n, d) of its sentences.
            samples: for each sentence but the first, the embeddings (k, d) of sentences that the
                model drew in its place; if k is 0, the medians are 0.

        Raises:
            InputError: the number of samples is not n - 1.
        """
        scored = values[1:]
        if len(samples) != len(scored):
            raise InputError(
                f"Samples are needed for {len(scored)} sentences (all but the first), not for "
                f"{len(samples)}."
            )
        shape = (len(scored), self.config.b)
        medians = [self._medians(self.channels.project(rows)) for rows in samples]
        signs = [self.channels.signs(place) for place in range(1, len(scored) + 1)]
        distances = self.channels.project(scored) - np.array(medians, np.float64).reshape(shape)
        return self.channels.count(
            self,
            distances,
            first=1,
            scores=_leading_matches(distances, np.array(signs, np.bool_).reshape(shape)),
            threshold=1.0,
            odds=odds_of_halved(distances, self.config.N),
        )

    def _medians(self, projections: NDArray[np.float64]) -> NDArray[np.float64]:
        """The median of every channel over all samples: (k, b) to (b,)."""
        if not len(projections):
            return np.zeros(self.config.b)
        return np.array([harrell_davis_median(channel) for channel in projections.T])


def odds_of_halved(distances: NDArray[np.float64], N: int) -> NDArray[np.float64]:
    """P(sentence | chosen under a code) / P(sentence | any), (u, b) to (u, 2^b) for all codes.

    The candidate lies on the required side of a median of N / 2^j candidates on channel j = 0, ...,
    and detection compares it with the median of N others. The median of n normal deviates has a
    variance of π / 2n, so a sentence at a distance of x deviations from the second median lies on
    the same side of the first with probability Φ(|x| / s), s² = π / 2 (2^j / N + 1 / N).
    """
    b = distances.shape[1]
    left = np.maximum(1.0, N / 2.0 ** np.arange(b))
    noise = np.sqrt(math.pi / 2.0 * (1.0 / left + 1.0 / N))
    spread = float(np.sqrt(np.square(distances).sum() / max(1, distances.size))) or 1.0
    x = (distances / (spread * noise))[:, None]
    log_odds = math.log(2.0) + log_tail(np.where(unpacked(b), -x, x))
    odds: NDArray[np.float64] = np.exp(log_odds.sum(axis=2))
    return odds


def _leading_matches(
    distances: NDArray[np.float64], signs: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """The number of successive channels, from the first on, on their required side.

    (n, b) and (n, b) or (b,) to (n,).
    """
    valid: NDArray[np.bool_] = (distances >= 0.0) == signs
    leading: NDArray[np.bool_] = np.minimum.accumulate(valid, axis=1)
    matches: NDArray[np.float32] = leading.sum(axis=1, dtype=np.float32)
    return matches
