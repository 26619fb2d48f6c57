"""K-SemStamp: a sentence must lie in a cluster that is valid after the last (Hou et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hammingmark.artifacts.profile import check_profile_name, profile_for
from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId, SentenceConfig
from hammingmark.keys.key import ReferenceKeys, WatermarkKey
from hammingmark.keys.matrix_text import array_from_text, array_to_text, short_hash
from hammingmark.protocols import Capabilities
from hammingmark.records import Choice
from hammingmark.stats.counted_power import FREE
from hammingmark.watermarks._shared.choices import first_accepted, free_choice
from hammingmark.watermarks._shared.counts import CountedText, random_masks
from hammingmark.watermarks._shared.hashing import project_in_order

GAMMA = {"default": 0.25, "relaxed": 0.5}
_MAX_CLUSTERS = 64


@dataclass(frozen=True, kw_only=True)
class KSemStampConfig(SentenceConfig):
    """The clusters of sentences, and how many of them are valid.

    Attributes:
        K: the number of clusters.
        gamma: the valid ratio, the share of clusters that are valid after a cluster.
        margin: the least difference between the two largest cosines of an accepted sentence to a
            centre; detection ignores it.
        N_max: the most candidates per sentence.
        centres: the centres of the clusters, unit rows (K, d) as text.
        profile: the encoder profile from which the centres come.
    """

    method: ClassVar[str] = "k-semstamp"
    presets: ClassVar[tuple[str, ...]] = tuple(GAMMA)

    K: int = 8
    gamma: float = 0.25
    margin: float = 0.02
    N_max: int = 100
    centres: str = field(repr=False)
    profile: str = ""

    def __post_init__(self) -> None:
        check_profile_name(self.profile)
        if not 2 <= self.K <= _MAX_CLUSTERS:
            raise InputError(f"K must lie between 2 and {_MAX_CLUSTERS} clusters, not {self.K}.")
        if not 1 <= self.valid < self.K:
            raise InputError(
                f"Of {self.K} clusters between 1 and {self.K - 1} must be valid; a gamma of "
                f"{self.gamma:g} gives {self.valid}."
            )
        if not 0.0 <= self.margin < 1.0:
            raise InputError(f"The margin must lie between 0 and 1, not {self.margin:g}.")
        if self.N_max < 1:
            raise InputError(f"N_max must be at least 1, not {self.N_max}.")
        rows = array_from_text(self.centres)
        if rows.shape != (self.K, self.encoder.dimension):
            raise InputError(
                f"The centres must be {self.K} rows of {self.encoder.dimension} numbers, not "
                f"{rows.shape[0]} of {rows.shape[1]}."
            )
        if (np.abs((rows.astype(np.float64) ** 2).sum(axis=1) - 1.0) > 0.02).any():
            raise InputError("The centres must have length one.")

    @classmethod
    def from_preset(cls, preset: str = "default", **parameters: Any) -> KSemStampConfig:
        """A preset; parameters given replace those of the preset.

        The centres are those of the file ``profile``, or of the encoder's profile that comes with
        the package.
        """
        cls.require_preset(preset)
        values = {"gamma": GAMMA[preset], **parameters}
        if "centres" not in parameters:
            encoder = parameters["encoder"]
            profile = profile_for(encoder, parameters.get("profile", ""), method=cls.method)
            K = len(profile.centres)
            if parameters.get("K", K) != K:
                raise InputError(
                    f"The profile has {K} clusters, not {parameters['K']}. Fit another with: "
                    f"hammingmark profile TEXTS --encoder {encoder.name} "
                    f"--clusters {parameters['K']} --out FILE"
                )
            values |= {"K": K, "centres": array_to_text(profile.centres), "profile": profile.name}
        return cls(**values)

    @property
    def valid(self) -> int:
        """The number of clusters that are valid after a cluster."""
        return int(self.K * self.gamma)

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        source = f" of {self.profile}" if self.profile else ""
        return (
            f"one of {self.valid} of {self.K} clusters, {self.margin:g} from the next nearest "
            f"(centres {short_hash(self.centres)}{source})"
        )


class KSemStamp:
    """A sentence lies in a cluster that a secret makes valid after the preceding cluster.

    A sentence belongs to the nearest of K centres, by cosine. They are fitted on natural texts and
    are part of the key, but not secret. The cluster of a sentence decides which clusters are valid
    for the next one. A candidate is accepted if it lies in one of them and not close to another.

    The p-value is exact over keys with the same centres and other valid clusters.

    Args:
        key: the secret, the centres and the rule.
    """

    name = "k-semstamp"
    Config = KSemStampConfig
    pool = 1
    judges_beginnings = False
    statistics: Sequence[str] = ("share",)

    def __init__(self, key: WatermarkKey) -> None:
        assert isinstance(key.config, KSemStampConfig)
        self.key = key
        self.config = config = key.config
        rows = array_from_text(config.centres).astype(np.float64)
        rows /= np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        self._centres = rows.astype(np.float32)
        uniforms = key.secret.uniforms("masks", config.K * config.K)
        self._masks = random_masks(uniforms.reshape(config.K, config.K), config.valid)

    @classmethod
    def examples(cls, encoder: EncoderId) -> Mapping[str, KSemStampConfig]:
        """Configurations for the contract suite, with random centres."""
        return {
            "default": KSemStampConfig(
                encoder=encoder, centres=_random_centres(8, encoder.dimension)
            ),
            "relaxed": KSemStampConfig(
                encoder=encoder,
                gamma=0.5,
                margin=0.0,
                centres=_random_centres(8, encoder.dimension),
            ),
            "many": KSemStampConfig(
                encoder=encoder, K=20, gamma=0.3, centres=_random_centres(20, encoder.dimension)
            ),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """Marking sentences, with a limit of trials."""
        return Capabilities(sentences=self, trials=self.config.N_max)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate in a valid cluster with the margin.

        Otherwise the first one in a valid cluster, or the first of all.

        Args:
            previous: embedding (d,) of the preceding sentence, or None if there is none.
            candidates: (c, d), in drawing order, at least one.
        """
        if previous is None:
            return free_choice(len(candidates))
        cosines = self._cosines(np.vstack([previous, candidates]))
        clusters = cosines.argmax(axis=1)
        scores = self._masks[clusters[0], clusters[1:]].astype(np.float32)
        second, first = np.partition(cosines[1:].astype(np.float64), -2, axis=1)[:, -2:].T
        accepted = (scores >= 1.0) & (first - second >= self.config.margin)
        return first_accepted(scores, accepted)

    def read(self, values: NDArray[np.float32]) -> CountedText:
        """Score a text by the embeddings (n, d) of its sentences."""
        clusters = self._cosines(values).argmax(axis=1)
        votes = self._masks[clusters[:-1], clusters[1:]]
        return CountedText(
            self,
            "transition",
            votes.astype(np.float32),
            threshold=1.0,
            max_score=1.0,
            counts={"share": votes.astype(np.float64)},
            expected=self.config.valid / self.config.K,
            draws=partial(self.reference_votes, clusters),
            free=FREE,
        )

    def reference_votes(
        self, clusters: NDArray[np.int64]
    ) -> Iterator[Mapping[str, NDArray[np.float64]]]:
        """Votes under blocks of reference keys, (n - 1, k), from the sentences' clusters (n,)."""
        K, size = self.config.K, ReferenceKeys.block
        for block in count():
            uniforms = self.key.secret.uniforms("reference masks", size * K * K, index=block)
            masks = random_masks(uniforms.reshape(size, K, K), self.config.valid)
            yield {"share": masks[:, clusters[:-1], clusters[1:]].T.astype(np.float64)}

    def _cosines(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return project_in_order(rows, self._centres)[:, 0]


def _random_centres(K: int, dimension: int) -> str:
    """Random unit rows (K, d) as text."""
    rows = np.random.default_rng(0).standard_normal((K, dimension))
    return array_to_text(rows / np.linalg.norm(rows, axis=1, keepdims=True))
