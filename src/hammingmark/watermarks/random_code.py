"""Random Code, the paper's control: the valid codes do not depend on the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId, SentenceConfig
from hammingmark.keys.key import ReferenceKeys, WatermarkKey
from hammingmark.protocols import Capabilities
from hammingmark.records import Choice
from hammingmark.stats.counted_power import FREE
from hammingmark.stats.references import coordinates
from hammingmark.watermarks._shared.choices import first_accepted
from hammingmark.watermarks._shared.counts import CountedText, random_masks
from hammingmark.watermarks._shared.hashing import bits_to_numbers, project, project_in_order


@dataclass(frozen=True, kw_only=True)
class RandomCodeConfig(SentenceConfig):
    """The codes of sentences, and how many of them are valid.

    Attributes:
        m: bits of the hash, which give 2^m codes.
        codes: the number of valid codes; 37 of 256 is the volume of the paper's Hamming ball.
    """

    method: ClassVar[str] = "random-code"

    m: int = 8
    codes: int = 37

    def __post_init__(self) -> None:
        if not 1 <= self.m <= 12:
            raise InputError(f"m must lie between 1 and 12 bits, not {self.m}.")
        if not 1 <= self.codes < 2**self.m:
            raise InputError(
                f"Of {2**self.m} codes, between 1 and {2**self.m - 1} must be valid, not "
                f"{self.codes}."
            )

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        return f"one of {self.codes} of {2**self.m} codes, whatever the preceding sentence"


class RandomCode:
    """The code of a sentence lies in a secret set, the same for every sentence.

    As many codes are valid as in HammingMark's ball, but they are drawn uniformly and do not lie
    around the preceding sentence's code. The first sentence of a text is judged like any other.

    Args:
        key: the secret and the rule.
    """

    name = "random-code"
    Config = RandomCodeConfig
    pool = 1
    judges_beginnings = True
    statistics: Sequence[str] = ("share",)

    def __init__(self, key: WatermarkKey) -> None:
        assert isinstance(key.config, RandomCodeConfig)
        self.key = key
        self.config = config = key.config
        self._planes, self._valid = key.expand_once(planes_and_codes_of)
        self._references = ReferenceKeys(key.secret, bits=config.m)

    @classmethod
    def examples(cls, encoder: EncoderId) -> Mapping[str, RandomCodeConfig]:
        """Configurations for the contract suite."""
        return {
            "default": RandomCodeConfig(encoder=encoder),
            "coarse": RandomCodeConfig(encoder=encoder, m=3, codes=3),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """Marking sentences."""
        return Capabilities(sentences=self)

    def choose(
        self, previous: NDArray[np.float32] | None, candidates: NDArray[np.float32]
    ) -> Choice:
        """The first candidate with a valid code, otherwise the first."""
        votes = self._votes(candidates)
        return first_accepted(votes.astype(np.float32), votes)

    def read(self, values: NDArray[np.float32]) -> CountedText:
        """Score a text by the embeddings (n, d) of its sentences."""
        votes = self._votes(values)
        return CountedText(
            self,
            "sentence",
            votes.astype(np.float32),
            threshold=1.0,
            max_score=1.0,
            counts={"share": votes.astype(np.float64)},
            expected=self.config.codes / 2**self.config.m,
            draws=partial(self.reference_votes, values),
            free=FREE,
            begins_text=True,
            context_units=0,
        )

    def reference_votes(
        self, values: NDArray[np.float32]
    ) -> Iterator[Mapping[str, NDArray[np.float64]]]:
        """Votes under blocks of reference keys, (n, k), from embeddings (n, d)."""
        config, size = self.config, ReferenceKeys.block
        reduced = coordinates(values)
        keys = np.arange(size)
        for block in count():
            planes = self._references.planes(block, reduced.shape[1])
            codes = codes_of(project(reduced, planes, bits=config.m))
            uniforms = self.key.secret.uniforms("reference codes", size * 2**config.m, index=block)
            valid = random_masks(uniforms.reshape(size, -1), config.codes)
            yield {"share": valid[keys, codes].astype(np.float64)}

    def _votes(self, rows: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which sentences have a valid code: (n, d) to (n,)."""
        votes: NDArray[np.bool_] = self._valid[codes_of(project_in_order(rows, self._planes)[:, 0])]
        return votes


def codes_of(projections: NDArray[np.float32]) -> NDArray[np.int64]:
    """The integer whose bits are 1[R e >= 0]: (..., m) to (...)."""
    return bits_to_numbers(projections >= 0)


def planes_and_codes_of(key: WatermarkKey) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The secret hyperplanes of a key, (m, d), and which codes are valid, (2^m,)."""
    config = key.config
    assert isinstance(config, RandomCodeConfig)
    width = config.encoder.dimension
    planes = key.secret.normals("planes", config.m * width).reshape(config.m, width)
    return planes, random_masks(key.secret.uniforms("codes", 2**config.m), config.codes)
