"""SimMark: neighbouring sentences as similar as an interval says (Dabiriaghdam and Wang, 2025)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hammingmark.artifacts.profile import EncoderProfile, check_profile_name, profile_for
from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId, SentenceConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.keys.matrix_text import array_from_text, array_to_text, short_hash
from hammingmark.protocols import Capabilities
from hammingmark.records import Choice
from hammingmark.stats.nulls import NormalApproximation
from hammingmark.watermarks._shared.counts import CountedText
from hammingmark.watermarks._shared.hashing import project_in_order
from hammingmark.watermarks._shared.similarity import central_interval, pair_cosines, share_inside

INTERVALS = {
    "default": {"cosine": (0.68, 0.76), "euclidean": (0.28, 0.36)},
    "relaxed": {"cosine": (0.40, 0.90)},
}
"""As published, for the authors' encoder; by the Euclidean distance, of 16 components."""

_BELOW_ONE = np.nextafter(np.float32(1.0), np.float32(0.0))


@dataclass(frozen=True, kw_only=True)
class SimMarkConfig(SentenceConfig):
    """How alike neighbouring sentences must be.

    The published intervals fit the authors' encoder. With another one natural text may hardly ever
    lie in them; ``acceptance`` then finds an interval.

    Attributes:
        a: where the interval begins.
        b: where it ends.
        distance: the cosine of neighbours, or the Euclidean distance between them.
        K: how fast the soft count falls outside of the interval.
        gamma: the share of human neighbours inside the interval.
        acceptance: the share for which the interval was chosen, around the median of human text; 0
            where it was not chosen by a share.
        components: principal components, orthonormal rows (c, d) as text, along which the
            Euclidean distance is taken; empty for all of the embedding.
        profile: of the encoder, where gamma, the interval or the components come from.
        N_max: candidates per sentence at most.
    """

    method: ClassVar[str] = "simmark"
    presets: ClassVar[tuple[str, ...]] = tuple(INTERVALS)

    a: float = 0.68
    b: float = 0.76
    distance: Literal["cosine", "euclidean"] = "cosine"
    K: float = 250.0
    gamma: float
    acceptance: float = 0.0
    components: str = field(default="", repr=False)
    profile: str = ""
    N_max: int = 100

    def __post_init__(self) -> None:
        check_profile_name(self.profile)
        least, most = (-1.0, 1.0) if self.distance == "cosine" else (0.0, 2.0)
        if not least <= self.a < self.b <= most:
            raise InputError(
                f"The interval of a {self.distance} lies between {least:g} and {most:g} and is not "
                f"empty; [{self.a:g}, {self.b:g}] is none."
            )
        if not 0.0 < self.gamma < 1.0:
            raise InputError(f"gamma lies between 0 and 1, not at {self.gamma:g}.")
        if not 0.0 <= self.acceptance < 1.0:
            raise InputError(f"The acceptance lies between 0 and 1, not at {self.acceptance:g}.")
        if not 0.0 < self.K <= 1e6:
            raise InputError(f"K is a number above 0 and up to a million, not {self.K:g}.")
        if self.N_max < 1:
            raise InputError(f"N_max is at least 1, not {self.N_max}.")
        if self.components:
            if self.distance == "cosine":
                raise InputError("Components are for the Euclidean distance, not for the cosine.")
            shape = array_from_text(self.components).shape
            if shape[1] != self.encoder.dimension:
                raise InputError(
                    f"The components are rows of {self.encoder.dimension} numbers, not {shape[1]}."
                )

    @classmethod
    def from_preset(cls, preset: str = "default", **given: Any) -> SimMarkConfig:
        """A preset, with what is given put in its place.

        What is not given of gamma, of the components and, where ``acceptance`` is, of the interval
        comes from ``profile``, a file, or from the encoder's that comes with the package.
        """
        cls.require_preset(preset)
        distance, file = given.get("distance", "cosine"), given.get("profile", "")
        wanted, measures = given.get("acceptance", 0.0), "gamma" not in given
        wants_components = distance == "euclidean" and "components" not in given
        chosen: dict[str, Any] = {}
        sample: NDArray[np.float32] = np.empty(0, np.float32)
        if file or wants_components or wanted or measures:
            found = profile_for(given["encoder"], file, method=cls.method)
            chosen["profile"] = found.name
            if wants_components:
                chosen["components"] = array_to_text(found.components)
            if wanted or measures:
                sample = _sample(found, distance, given.get("components"))
        chosen = {**given, **chosen}
        if not {"a", "b"} <= given.keys():
            low, high = _interval(preset, distance, sample, acceptance=wanted)
            chosen = {"a": low, "b": high, **chosen}
        if measures:
            chosen["gamma"] = share_inside(sample, chosen["a"], chosen["b"])
        return cls(**chosen)

    @property
    def summary(self) -> str:
        """The rule in a few words."""
        of = ""
        if self.components:
            number = len(array_from_text(self.components))
            of = f" of {number} components ({short_hash(self.components)})"
        what = "cosine" if self.distance == "cosine" else "distance"
        return (
            f"{what}{of} to the preceding sentence in [{self.a:g}, {self.b:g}], where "
            f"{self.gamma:.1%} of natural neighbours lie"
        )


def _interval(
    preset: str, distance: str, sample: NDArray[np.float32], *, acceptance: float
) -> tuple[float, float]:
    """The interval with this natural acceptance, or the published one."""
    if acceptance:
        if not 0.0 < acceptance < 1.0:
            raise InputError(f"The acceptance lies between 0 and 1, not at {acceptance:g}.")
        return central_interval(sample, acceptance)
    if distance not in INTERVALS[preset]:
        raise InputError(
            f"The preset {preset!r} has an interval of cosines alone; give a and b, or acceptance."
        )
    return INTERVALS[preset][distance]


def _sample(profile: EncoderProfile, distance: str, components: str | None) -> NDArray[np.float32]:
    """How alike human neighbours are."""
    if distance == "cosine":
        return profile.cosines
    if components is None:
        return profile.distances
    if components:
        raise InputError("With components of your own, give gamma, a and b as well.")
    lengths: NDArray[np.float32] = np.sqrt(2.0 - 2.0 * profile.cosines[::-1])
    return lengths


class SimMark:
    """The next sentence is as similar to the preceding one as a fixed interval says.

    A candidate is accepted when its cosine to the preceding sentence, or its distance from it, lies
    in an interval. A sentence counts 1 inside, and exp(-K distance) outside, by how far it is from
    the interval.

    There is no key: whoever knows the interval can find the mark, and take it away. The published
    interval fits the authors' encoder; with another one it should be chosen by the encoder's
    profile (``acceptance``).

    The published code keeps the last of N_max candidates where none fits; here it is the nearest.

    Args:
        key: the rule; its secret decides nothing.
    """

    name = "simmark"
    Config = SimMarkConfig
    pool = 1
    judges_beginnings = False
    statistics: Sequence[str] = ("soft", "hard")

    def __init__(self, key: WatermarkKey) -> None:
        assert isinstance(key.config, SimMarkConfig)
        self.key = key
        self.config = config = key.config
        self._components = array_from_text(config.components) if config.components else None

    @classmethod
    def examples(cls, encoder: EncoderId) -> Mapping[str, SimMarkConfig]:
        """Configurations for the contract suite; gamma stands for a measured one."""
        size = encoder.dimension
        some = np.linalg.qr(np.random.default_rng(0).standard_normal((size, size)))[0][: size // 3]
        return {
            "default": SimMarkConfig(encoder=encoder, gamma=0.1),
            "relaxed": SimMarkConfig(encoder=encoder, a=0.4, b=0.9, gamma=0.6),
            "euclidean": SimMarkConfig(
                encoder=encoder, distance="euclidean", a=0.8, b=0.95, gamma=0.3
            ),
            "components": SimMarkConfig(
                encoder=encoder,
                distance="euclidean",
                a=0.45,
                b=0.55,
                gamma=0.3,
                components=array_to_text(some),
            ),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """A limit of trials; it rests on no secret."""
        return Capabilities(sentences=self, keyless=True, trials=self.config.N_max)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate inside the interval, otherwise the one nearest to it."""
        if previous is None:
            return Choice(0, True, (1.0,) * len(candidates))
        before = np.broadcast_to(previous, candidates.shape)
        scores = self._scores(self._soft(before, candidates))
        index = int(np.argmax(scores))
        return Choice(index, bool(scores[index] >= 1.0), tuple(map(float, scores)))

    def read(self, values: NDArray[np.float32]) -> CountedText:
        """Score a text by the embeddings (n, d) of its sentences."""
        soft = self._soft(values[:-1], values[1:])
        scores = self._scores(soft)
        gamma = self.config.gamma
        return CountedText(
            self,
            "transition",
            scores,
            threshold=1.0,
            max_score=1.0,
            counts={"soft": soft, "hard": (scores >= 1.0).astype(np.float64)},
            expected=gamma,
            null=NormalApproximation(len(scores), gamma, self.key.secret),
        )

    def _soft(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
        """Soft counts of pairs, (n, d) each; exactly 1 inside the interval and nowhere else."""
        config = self.config
        likeness = self._likeness(first, second)
        outside = np.maximum(np.maximum(config.a - likeness, likeness - config.b), 0.0)
        soft = np.minimum(np.exp(-config.K * outside), float(_BELOW_ONE))
        return np.where(outside > 0.0, soft, 1.0)

    def _scores(self, soft: NDArray[np.float64]) -> NDArray[np.float32]:
        """What lies outside stays below 1: `_soft` leaves room for the rounding."""
        return soft.astype(np.float32)

    def _likeness(
        self, first: NDArray[np.float32], second: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        if self.config.distance == "cosine":
            return pair_cosines(first, second)
        # Summed in one order, so that a pair has the same distance whatever stands beside it.
        if self._components is None:
            apart = first.astype(np.float64, order="C") - second
        else:
            left = project_in_order(first, self._components)[:, 0]
            apart = left.astype(np.float64) - project_in_order(second, self._components)[:, 0]
        lengths: NDArray[np.float64] = np.sqrt((apart * apart).sum(axis=1))
        return lengths
