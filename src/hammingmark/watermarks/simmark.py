"""SimMark: the similarity of neighbours lies in an interval (Dabiriaghdam and Wang, 2025)."""

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
from hammingmark.watermarks._shared.choices import first_accepted, free_choice
from hammingmark.watermarks._shared.counts import CountedText
from hammingmark.watermarks._shared.hashing import project_in_order
from hammingmark.watermarks._shared.similarity import central_interval, pair_cosines, share_inside

INTERVALS = {
    "default": {"cosine": (0.68, 0.76), "euclidean": (0.28, 0.36)},
    "relaxed": {"cosine": (0.40, 0.90)},
}
"""As published for the authors' encoder; the Euclidean interval is for 16 components."""

_BELOW_ONE = np.nextafter(np.float32(1.0), np.float32(0.0))


@dataclass(frozen=True, kw_only=True)
class SimMarkConfig(SentenceConfig):
    """The interval of the similarity of neighbouring sentences.

    The published intervals fit the authors' encoder. With another encoder, natural text may hardly
    ever lie in them; ``acceptance`` then gives an interval.

    Attributes:
        a: the lower end of the interval.
        b: the upper end of the interval.
        distance: the cosine of neighbours, or their Euclidean distance.
        K: how fast the soft count decays outside the interval.
        gamma: the share of human neighbours inside the interval.
        acceptance: the share for which the interval was fitted around the median of human text, or
            0.
        components: principal components, orthonormal rows (c, d) as text, along which the
            Euclidean distance is taken; empty for the whole embedding.
        profile: the encoder profile from which gamma, the interval or the components come.
        N_max: the most candidates per sentence.
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
                f"The interval [{self.a:g}, {self.b:g}] is invalid: it must lie between {least:g} "
                f"and {most:g} for the distance {self.distance!r}, and must not be empty."
            )
        if not 0.0 < self.gamma < 1.0:
            raise InputError(f"gamma must lie between 0 and 1, not {self.gamma:g}.")
        if not 0.0 <= self.acceptance < 1.0:
            raise InputError(f"acceptance must lie between 0 and 1, not {self.acceptance:g}.")
        if not 0.0 < self.K <= 1e6:
            raise InputError(f"K must be above 0 and at most a million, not {self.K:g}.")
        if self.N_max < 1:
            raise InputError(f"N_max must be at least 1, not {self.N_max}.")
        if self.components:
            if self.distance == "cosine":
                raise InputError(
                    "Components are only for the Euclidean distance, not for the cosine."
                )
            shape = array_from_text(self.components).shape
            if shape[1] != self.encoder.dimension:
                raise InputError(
                    f"The components must be rows of {self.encoder.dimension} numbers, not "
                    f"{shape[1]}."
                )

    @classmethod
    def from_preset(cls, preset: str = "default", **parameters: Any) -> SimMarkConfig:
        """A preset; parameters given replace those of the preset.

        Without ``gamma`` it is measured on a profile, with ``acceptance`` the interval is fitted to
        it, and for the Euclidean distance the components come from it. The profile is the file
        ``profile``, or the one of the encoder that comes with the package.
        """
        cls.require_preset(preset)
        distance, file = parameters.get("distance", "cosine"), parameters.get("profile", "")
        acceptance, needs_gamma = parameters.get("acceptance", 0.0), "gamma" not in parameters
        needs_components = distance == "euclidean" and "components" not in parameters
        values = dict(parameters)
        sample: NDArray[np.float32] = np.empty(0, np.float32)
        if file or needs_components or acceptance or needs_gamma:
            profile = profile_for(parameters["encoder"], file, method=cls.method)
            values["profile"] = profile.name
            if needs_components:
                values["components"] = array_to_text(profile.components)
            if acceptance or needs_gamma:
                sample = _sample(profile, distance, parameters.get("components"))
        if not {"a", "b"} <= parameters.keys():
            low, high = _interval(preset, distance, sample, acceptance=acceptance)
            values = {"a": low, "b": high, **values}
        if needs_gamma:
            values["gamma"] = share_inside(sample, values["a"], values["b"])
        return cls(**values)

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        components = ""
        if self.components:
            number = len(array_from_text(self.components))
            components = f" of {number} components ({short_hash(self.components)})"
        measure = "cosine" if self.distance == "cosine" else "distance"
        return (
            f"{measure}{components} to the preceding sentence in [{self.a:g}, {self.b:g}], where "
            f"{self.gamma:.1%} of natural neighbours lie"
        )


def _interval(
    preset: str, distance: str, sample: NDArray[np.float32], *, acceptance: float
) -> tuple[float, float]:
    """The interval with this natural acceptance, or the published one."""
    if acceptance:
        if not 0.0 < acceptance < 1.0:
            raise InputError(f"acceptance must lie between 0 and 1, not {acceptance:g}.")
        return central_interval(sample, acceptance)
    if distance not in INTERVALS[preset]:
        raise InputError(
            f"The preset {preset!r} defines only an interval of cosines. Set a and b, or "
            "acceptance."
        )
    return INTERVALS[preset][distance]


def _sample(profile: EncoderProfile, distance: str, components: str | None) -> NDArray[np.float32]:
    """The similarities of human neighbours, (s,)."""
    if distance == "cosine":
        return profile.cosines
    if components is None:
        return profile.distances
    if components:
        raise InputError("With your own components, set gamma, a and b as well.")
    lengths: NDArray[np.float32] = np.sqrt(2.0 - 2.0 * profile.cosines[::-1])
    return lengths


class SimMark:
    """The similarity of neighbouring sentences lies in an interval.

    A candidate is accepted if its cosine to the preceding sentence, or its distance from it, lies
    in the interval. A sentence counts 1 inside the interval, and exp(-K distance) at a distance
    from it.

    There is no key: anybody who knows the interval can detect the mark, and remove it. The
    published interval fits the authors' encoder; for another encoder it should be fitted by the
    encoder's profile (``acceptance``).

    If no candidate fits, the published code keeps the last of N_max candidates; here it is the
    nearest.

    Args:
        key: the rule; its secret has no effect.
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
        """Configurations for the contract suite, with made-up values of gamma."""
        size = encoder.dimension
        rows = np.linalg.qr(np.random.default_rng(0).standard_normal((size, size)))[0][: size // 3]
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
                components=array_to_text(rows),
            ),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """Marking sentences, with a limit of trials and without a secret."""
        return Capabilities(sentences=self, keyless=True, trials=self.config.N_max)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate inside the interval, otherwise the nearest to it."""
        if previous is None:
            return free_choice(len(candidates))
        before = np.broadcast_to(previous, candidates.shape)
        scores = self._scores(self._soft(before, candidates))
        return first_accepted(scores, scores >= 1.0)

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
        """Soft counts of pairs, (n, d) each, to (n,); 1 inside the interval and nowhere else."""
        config = self.config
        similarity = self._similarity(first, second)
        outside = np.maximum(np.maximum(config.a - similarity, similarity - config.b), 0.0)
        soft = np.minimum(np.exp(-config.K * outside), float(_BELOW_ONE))
        return np.where(outside > 0.0, soft, 1.0)

    def _scores(self, soft: NDArray[np.float64]) -> NDArray[np.float32]:
        """Soft counts as scores; outside the interval `_soft` leaves room for rounding below 1."""
        return soft.astype(np.float32)

    def _similarity(
        self, first: NDArray[np.float32], second: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """The cosines or distances of pairs: (n, d) and (n, d) to (n,)."""
        if self.config.distance == "cosine":
            return pair_cosines(first, second)
        # Summed in one order, so that the distance of a pair does not depend on the other pairs.
        if self._components is None:
            difference = first.astype(np.float64, order="C") - second
        else:
            left = project_in_order(first, self._components)[:, 0].astype(np.float64)
            difference = left - project_in_order(second, self._components)[:, 0]
        lengths: NDArray[np.float64] = np.sqrt((difference * difference).sum(axis=1))
        return lengths
