"""SemStamp: a sentence must lie in a region that is valid after the last (Hou et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId, SentenceConfig
from hammingmark.keys.key import ReferenceKeys, WatermarkKey
from hammingmark.protocols import Capabilities
from hammingmark.records import Choice
from hammingmark.stats.counted_power import FREE
from hammingmark.stats.references import coordinates
from hammingmark.watermarks._shared.choices import first_accepted, free_choice
from hammingmark.watermarks._shared.counts import CountedText, random_masks
from hammingmark.watermarks._shared.hashing import bits_to_numbers, project, project_in_order

GAMMA = {"default": 0.25, "relaxed": 0.5}

PUBLISHED_SEED = 1234
PUBLISHED_MASKS = ((4, 0), (6, 2), (4, 7), (2, 3), (0, 2), (0, 5), (6, 2), (1, 7))
"""The valid regions after each of 8, as the published code draws them on a CPU."""


@dataclass(frozen=True, kw_only=True)
class SemStampConfig(SentenceConfig):
    """The regions of sentences, and how many of them are valid.

    Attributes:
        d: hyperplanes of the locality-sensitive hash, which give 2^d regions.
        gamma: the valid ratio, the share of regions that are valid after a region.
        margin: the least |cosine| of an accepted sentence to the normal of every hyperplane;
            detection ignores it.
        N_max: the most candidates per sentence.
        constants: ``own`` takes hyperplanes and valid regions from the key; ``published`` takes
            those of the authors' code on a CPU, which are public.
    """

    method: ClassVar[str] = "semstamp"
    presets: ClassVar[tuple[str, ...]] = tuple(GAMMA)

    d: int = 3
    gamma: float = 0.25
    margin: float = 0.02
    N_max: int = 100
    constants: Literal["own", "published"] = "own"

    def __post_init__(self) -> None:
        if not 1 <= self.d <= 6:
            raise InputError(f"d must lie between 1 and 6 hyperplanes, not {self.d}.")
        if not 1 <= self.valid < 2**self.d:
            raise InputError(
                f"Of {2**self.d} regions between 1 and {2**self.d - 1} must be valid; a gamma of "
                f"{self.gamma:g} gives {self.valid}."
            )
        if not 0.0 <= self.margin < 1.0:
            raise InputError(f"The margin must lie between 0 and 1, not {self.margin:g}.")
        if self.N_max < 1:
            raise InputError(f"N_max must be at least 1, not {self.N_max}.")
        if self.constants == "published" and (self.d, self.valid) != (3, 2):
            raise InputError("Published valid regions exist only for d = 3 and gamma = 0.25.")

    @classmethod
    def from_preset(cls, preset: str = "default", **parameters: Any) -> SemStampConfig:
        """A preset; parameters given replace those of the preset."""
        cls.require_preset(preset)
        return cls(**{"gamma": GAMMA[preset], **parameters})

    @property
    def valid(self) -> int:
        """The number of regions that are valid after a region."""
        return int(2**self.d * self.gamma)

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        return f"one of {self.valid} of {2**self.d} regions, {self.margin:g} from every edge"


class SemStamp:
    """A sentence lies in a region that a secret makes valid after the preceding region.

    d hyperplanes divide the space of embeddings into 2^d regions. The region of a sentence, its
    signature, decides which regions are valid for the next one. A candidate is accepted if it lies
    in one of them, with a margin to every hyperplane.

    The published code never stops drawing if no candidate fits; here N_max limits it.

    Args:
        key: the secret and the rule.
    """

    name = "semstamp"
    Config = SemStampConfig
    pool = 1
    judges_beginnings = False
    statistics: Sequence[str] = ("share",)

    def __init__(self, key: WatermarkKey) -> None:
        assert isinstance(key.config, SemStampConfig)
        self.key = key
        self.config = config = key.config
        self._is_published = config.constants == "published"
        self._planes, self._masks = key.expand_once(planes_and_masks_of)
        lengths = np.sqrt((self._planes.astype(np.float64) ** 2).sum(axis=1))
        self._least = (config.margin * lengths).astype(np.float32)
        self._references = ReferenceKeys(key.secret, bits=config.d)

    @classmethod
    def examples(cls, encoder: EncoderId) -> Mapping[str, SemStampConfig]:
        """Configurations for the contract suite."""
        return {
            "default": SemStampConfig(encoder=encoder),
            "relaxed": SemStampConfig(encoder=encoder, gamma=0.5, margin=0.0),
            "fine": SemStampConfig(encoder=encoder, d=5, gamma=0.3),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """Marking sentences, with a limit of trials; published constants are not secret."""
        return Capabilities(sentences=self, keyless=self._is_published, trials=self.config.N_max)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate in a valid region with the margin.

        Otherwise the first one in a valid region, or the first of all.

        Args:
            previous: embedding (d,) of the preceding sentence, or None if there is none.
            candidates: (c, d), in drawing order, at least one.
        """
        if previous is None:
            return free_choice(len(candidates))
        projections = self._project(np.vstack([previous, candidates]))
        regions = signatures(projections)
        scores = self._masks[regions[0], regions[1:]].astype(np.float32)
        clear = (np.abs(projections[1:]) >= self._least).all(axis=1)
        accepted = (scores >= 1.0) & clear
        return first_accepted(scores, accepted)

    def read(self, values: NDArray[np.float32]) -> CountedText:
        """Score a text by the embeddings (n, d) of its sentences."""
        regions = signatures(self._project(values))
        votes = self._masks[regions[:-1], regions[1:]]
        return CountedText(
            self,
            "transition",
            votes.astype(np.float32),
            1.0,
            1.0,
            {"share": votes.astype(np.float64)},
            self.config.valid / 2**self.config.d,
            draws=partial(self.reference_votes, values),
            free=FREE,
        )

    def _project(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return project_in_order(rows, self._planes)[:, 0]

    def reference_votes(
        self, values: NDArray[np.float32]
    ) -> Iterator[Mapping[str, NDArray[np.float64]]]:
        """Votes under blocks of reference keys, (n - 1, k), from embeddings (n, d)."""
        config = self.config
        regions, size = 2**config.d, ReferenceKeys.block
        reduced = coordinates(values)
        keys = np.arange(size)
        for block in count():
            planes = self._references.planes(block, reduced.shape[1])
            numbers = signatures(project(reduced, planes, bits=config.d))
            uniforms = self.key.secret.uniforms(
                "reference masks", size * regions * regions, index=block
            )
            masks = random_masks(uniforms.reshape(size, regions, regions), config.valid)
            yield {"share": masks[keys, numbers[:-1], numbers[1:]].astype(np.float64)}


def signatures(projections: NDArray[np.float32]) -> NDArray[np.int64]:
    """The numbers of the regions of projected sentences: (..., d) to (...)."""
    return bits_to_numbers(projections > 0)


def planes_and_masks_of(key: WatermarkKey) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The hyperplanes of a key, (d, width), and the valid regions after each, (2^d, 2^d)."""
    config = key.config
    assert isinstance(config, SemStampConfig)
    regions, width = 2**config.d, config.encoder.dimension
    if config.constants == "published":
        generator = np.random.RandomState(PUBLISHED_SEED)
        planes = generator.randn(config.d, width).astype(np.float32)
        masks = np.zeros((regions, regions), np.bool_)
        for region, valid in enumerate(PUBLISHED_MASKS):
            masks[region, list(valid)] = True
        return planes, masks
    planes = key.secret.normals("planes", config.d * width).reshape(config.d, width)
    uniforms = key.secret.uniforms("masks", regions * regions)
    return planes, random_masks(uniforms.reshape(regions, regions), config.valid)
