"""SIR: tokens are biased by what the text before them means (Liu et al., 2024)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hammingmark.artifacts.network import (
    TransformNetwork,
    apply_network,
    balanced_signs,
    transform_for,
)
from hammingmark.errors import InputError
from hammingmark.keys.config import ContextConfig, EncoderId, TokenizerId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Capabilities, FloatArray
from hammingmark.records import DecodingStep
from hammingmark.stats.compare import TextTest
from hammingmark.stats.grouped import GroupedNull
from hammingmark.stats.ranking import rank_keys
from hammingmark.text.context_tokens import split_contexts
from hammingmark.text.word_chunks import WordChunks
from hammingmark.watermarks._shared.token_scores import ScoredTokens, log_odds, marked_share

if TYPE_CHECKING:
    import torch

PROJECTION = "projection"
"""In place of a network: 300 directions that anybody knows."""

SHIPPED = "shipped"
"""The network of the encoder that comes with the package."""

_DIMENSIONS = 300
_VALUES = 1 << 16  # of which a token's dimension is the remainder
_CENTRE = 0.2  # the published threshold: half of what marked text has, or less
_KEY_BLOCK = 64  # keys that are compared side by side


@dataclass(frozen=True, kw_only=True)
class SIRConfig(ContextConfig):
    """How tokens are biased, and by how much of the text before them.

    Attributes:
        delta: added to the logits of half of the tokens, and taken off those of the others.
        chunk_length: words after which the context is another.
        context_chunks: chunks of a context at most.
        network: makes signs of an embedding: ``shipped``, ``projection``, or the file of one.
        digest: which network it is.
    """

    method: ClassVar[str] = "sir"

    delta: float = 1.0
    chunk_length: int = 10
    context_chunks: int = 3
    network: str = SHIPPED
    digest: str = ""

    def __post_init__(self) -> None:
        if not 0.0 < self.delta <= 100.0:
            raise InputError(f"delta lies above 0 and is at most 100, not {self.delta:g}.")
        if not 1 <= self.chunk_length <= 1000:
            raise InputError(f"A chunk has between 1 and 1000 words, not {self.chunk_length}.")
        if not 1 <= self.context_chunks <= 1000:
            raise InputError(
                f"A context has between 1 and 1000 chunks at most, not {self.context_chunks}."
            )
        if not self.network:
            raise InputError(
                f"Name a network: {SHIPPED}, {PROJECTION}, or the file of one that was trained."
            )

    @classmethod
    def from_preset(cls, preset: str = "default", **given: Any) -> SIRConfig:
        """A preset, with what is given put in its place; it names the network that there is now."""
        cls.require_preset(preset)
        made = cls(**given)
        if made.network == PROJECTION:
            if made.digest:
                raise InputError("A projection is no file, and has no digest. Leave it out.")
            return made
        if made.network != SHIPPED:
            # A key is used from other folders than the one where it was made.
            made = replace(made, network=str(Path(made.network).expanduser().absolute()))
        return replace(made, digest=made.find_network().digest)

    def find_network(self) -> TransformNetwork:
        """The network of this name.

        Raises:
            InputError: there is none, or it is another one.
        """
        file = "" if self.network == SHIPPED else self.network
        return transform_for(self.encoder, file, digest=self.digest)

    @property
    def summary(self) -> str:
        """The rule in a few words."""
        return (
            f"logits ± {self.delta:g} by the meaning of the last "
            f"{self.chunk_length * self.context_chunks} words, every {self.chunk_length} words "
            f"(network {self.network}{f' {self.digest[:12]}' if self.digest else ''})"
        )


class SIR:
    """Half of the tokens get a bonus; which half depends on the meaning of the text before.

    A network makes 300 signs of the embedding of a context; a secret gives each token one of the
    300 dimensions. The sign in its dimension is taken from, or added to, the token's logit. Texts
    that mean the same have nearly the same signs, so that the mark survives a rewording of what
    stands before. The context is the text in whole chunks of words; the first chunk of a text
    has none, and is not marked.

    The p-value is exact over keys, which give tokens other dimensions: a token that comes again
    has the same dimension again, and is not counted as if it had another.

    Args:
        key: the secret and the rule.
    """

    name = "sir"
    Config = SIRConfig
    stage: Literal["logits"] = "logits"
    width = 0
    condition_size = _DIMENSIONS
    statistics: Sequence[str] = ("similarity",)

    def __init__(self, key: WatermarkKey) -> None:
        assert isinstance(key.config, SIRConfig)
        self.key = key
        self.config = key.config
        self._chunks = WordChunks(self.config.chunk_length, self.config.context_chunks)
        self._on: dict[object, torch.Tensor] = {}

    @classmethod
    def examples(cls, tokenizer: TokenizerId, encoder: EncoderId) -> Mapping[str, SIRConfig]:
        """Configurations for the contract suite."""
        default = SIRConfig(tokenizer=tokenizer, encoder=encoder, network=PROJECTION)
        return {"default": default, "strong": replace(default, delta=4.0, chunk_length=5)}

    @cached_property
    def capabilities(self) -> Capabilities:
        """A search among very many keys; tokens have contexts."""
        return Capabilities(tokens=self, ranking=self, context=self)

    def context(self, text: str) -> str:
        """The last whole chunks of a text; empty before the first."""
        return self._chunks.context(text)

    def contexts(self, text: str, places: Sequence[int]) -> tuple[list[str], NDArray[np.int64]]:
        """The contexts of a text, and the number of that of each place, -1 for none."""
        return self._chunks.contexts(text, places)

    def context_changes(self, text: str) -> Callable[[str], bool]:
        """A function that says whether the context after a text and some more is another."""
        return self._chunks.context_changes(text)

    def condition(self, embeddings: FloatArray) -> FloatArray:
        """The bias in each dimension, -1 or 1, of contexts: (n, d) to (n, 300)."""
        if self.config.network == PROJECTION:
            values = embeddings.astype(np.float64) @ _projection(self.config.encoder.dimension).T
        else:
            values = apply_network(embeddings, self._network.layers)
        return -balanced_signs(values)

    @property
    def dimensions(self) -> NDArray[np.int64]:
        """The dimension of each token, (V,)."""
        return self.key.expand_once(dimensions_of)

    def process(self, scores: torch.Tensor, step: DecodingStep) -> torch.Tensor:
        """Logits (B, k) with the bias of each text's context, none where it has none yet."""
        import torch

        device = scores.device
        if device not in self._on:
            self._on[device] = torch.from_numpy(self.dimensions).to(device)
        places = self._on[device][step.tokens].expand(len(scores), -1)
        return scores + self.config.delta * step.conditions.gather(1, places)

    def read(self, values: NDArray[Any]) -> ScoredTokens:
        """Score a text by its tokens and the embeddings of their contexts (`context_tokens`)."""
        tokens, contexts, kinds = split_contexts(values)
        biases = self.condition(contexts)
        own = biases[kinds, self.dimensions[tokens]].astype(np.float64)
        null = GroupedNull(
            tokens,
            biases.astype(np.int8),
            _probabilities(),
            centre=_CENTRE,
            kinds=kinds,
            secret=self.key.secret,
            # A unit adds 1 or -1, and the odds are for the one against the other.
            tilt=log_odds(marked_share(0.5, self.most_valid), 0.5) / 2.0,
        )
        test = TextTest(own, null.best, null.centre, null)
        return ScoredTokens(
            self,
            own.astype(np.float32),
            1.0,
            1.0,
            {"similarity": test},
            np.ones(len(own), np.bool_),
            z={"similarity": null.z(own)},
        )

    @property
    def most_valid(self) -> float:
        """The probability of biased tokens where all were equally likely: e^2δ / (1 + e^2δ)."""
        return 1.0 / (1.0 + math.exp(-2.0 * self.config.delta))

    def rank(
        self, keys: Sequence[WatermarkKey], texts: Sequence[NDArray[Any]], *, statistic: str
    ) -> list[list[int]]:
        """For each text, the keys under which the whole of it and a passage of it do best."""
        parts = []
        for values in texts:
            tokens, contexts, kinds = split_contexts(values)
            parts.append((tokens, self.condition(contexts), kinds[:, None]))

        def increments(block: Sequence[WatermarkKey]) -> Iterator[list[NDArray[np.float64]]]:
            maps = np.stack([dimensions_of(key) for key in block], axis=1)
            for tokens, biases, kinds in parts:
                yield [biases[kinds, maps[tokens]].astype(np.float64)]

        centres = [np.full(len(tokens), _CENTRE) for tokens, _, _ in parts]
        return rank_keys(keys, centres, increments, block_size=_KEY_BLOCK)

    def like(self, key: WatermarkKey) -> SIR:
        """The same under another key of the same configuration."""
        mark = SIR(key)
        if "_network" in self.__dict__:
            mark.__dict__["_network"] = self._network
        return mark

    @cached_property
    def _network(self) -> TransformNetwork:
        return self.config.find_network()


def dimensions_of(key: WatermarkKey) -> NDArray[np.int64]:
    """The secret dimension of each token, (V,): 16 bits of the stream, modulo 300."""
    assert isinstance(key.config, SIRConfig)
    stream = key.secret.stream("sir", 2 * key.config.tokenizer.size)
    return np.frombuffer(stream, "<u2").astype(np.int64) % _DIMENSIONS


@lru_cache(maxsize=1)
def _probabilities() -> NDArray[np.float64]:
    """Of each dimension: 65,536 is no multiple of 300, and the null distribution is exact."""
    return np.bincount(np.arange(_VALUES) % _DIMENSIONS) / _VALUES


@lru_cache(maxsize=4)
def _projection(dimension: int) -> NDArray[np.float64]:
    """Directions that anybody knows, (300, d), the same on every machine."""
    numbers = Secret(bytes(32)).normals("sir projection", _DIMENSIONS * dimension)
    return numbers.astype(np.float64).reshape(_DIMENSIONS, dimension)
