"""SIR: tokens are biased by the meaning of the preceding text (Liu et al., 2024)."""

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
"""Instead of a network: 300 public directions."""

SHIPPED = "shipped"
"""The encoder's network that comes with the package."""

_DIMENSIONS = 300
_VALUES = 1 << 16  # a token's dimension is one of these modulo 300
_CENTRE = 0.2  # the published threshold: at most half of the mean in marked text
_KEY_BLOCK = 64  # keys that are compared side by side


@dataclass(frozen=True, kw_only=True)
class SIRConfig(ContextConfig):
    """The bias of tokens, and the context that decides it.

    Attributes:
        delta: added to the logits of half of the tokens, and subtracted from those of the others.
        chunk_length: words in a chunk; the context changes after each chunk.
        context_chunks: the most chunks in a context.
        network: gives the signs of an embedding: ``shipped``, ``projection``, or a file.
        digest: identifies the network; empty for a projection.
    """

    method: ClassVar[str] = "sir"

    delta: float = 1.0
    chunk_length: int = 10
    context_chunks: int = 3
    network: str = SHIPPED
    digest: str = ""

    def __post_init__(self) -> None:
        if not 0.0 < self.delta <= 100.0:
            raise InputError(f"delta must be above 0 and at most 100, not {self.delta:g}.")
        if not 1 <= self.chunk_length <= 1000:
            raise InputError(
                f"chunk_length must lie between 1 and 1000 words, not {self.chunk_length}."
            )
        if not 1 <= self.context_chunks <= 1000:
            raise InputError(
                f"context_chunks must lie between 1 and 1000, not {self.context_chunks}."
            )
        if not self.network:
            raise InputError(
                f"network must be {SHIPPED}, {PROJECTION}, or the file of a trained network."
            )

    @classmethod
    def from_preset(cls, preset: str = "default", **parameters: Any) -> SIRConfig:
        """A preset; parameters given replace those of the preset.

        The digest is that of the network as it is now.
        """
        cls.require_preset(preset)
        config = cls(**parameters)
        if config.network == PROJECTION:
            if config.digest:
                raise InputError("A projection has no digest. Omit it.")
            return config
        if config.network != SHIPPED:
            # A key may be used in another folder than the one where it was created.
            config = replace(config, network=str(Path(config.network).expanduser().absolute()))
        return replace(config, digest=config.find_network().digest)

    def find_network(self) -> TransformNetwork:
        """The network with this name and digest.

        Raises:
            InputError: it does not exist, or has another digest.
        """
        file = "" if self.network == SHIPPED else self.network
        return transform_for(self.encoder, file, digest=self.digest)

    @property
    def summary(self) -> str:
        """A short description of the rule."""
        return (
            f"logits ± {self.delta:g} by the meaning of the last "
            f"{self.chunk_length * self.context_chunks} words, every {self.chunk_length} words "
            f"(network {self.network}{f' {self.digest[:12]}' if self.digest else ''})"
        )


class SIR:
    """Half of the tokens get a bonus; the meaning of the preceding text decides which half.

    A network gives 300 signs for the embedding of a context, and a secret gives each token one of
    the 300 dimensions. The sign in its dimension decides whether δ is added to the token's logit or
    subtracted from it. Texts with the same meaning have nearly the same signs, so that the mark
    survives rewording of the preceding text. The context is the preceding text in whole chunks of
    words; the first chunk of a text has no context, and is not marked.

    The p-value is exact over keys, which give tokens other dimensions: a repeated token has the
    same dimension again, and the null distribution takes its occurrences together.

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
        """Marking tokens by their contexts, and ranking of very many keys."""
        return Capabilities(tokens=self, ranking=self, context=self)

    def context(self, text: str) -> str:
        """The last whole chunks of a text; empty before the first."""
        return self._chunks.context(text)

    def contexts(self, text: str, places: Sequence[int]) -> tuple[list[str], NDArray[np.int64]]:
        """The contexts of a text, and the number of each place's context, -1 for none."""
        return self._chunks.contexts(text, places)

    def context_changes(self, text: str) -> Callable[[str], bool]:
        """A function that says whether the context changes after more text."""
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
        """Logits with the bias of each text's context, if it has one: (B, k) to (B, k)."""
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
            # Increments are 1 and -1, so the tilt of one step is half of the log-odds.
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
        """The probability of tokens with a bonus if all were equally likely: e^2δ / (1 + e^2δ)."""
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
        """The same method under another key of the same configuration."""
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
    """The probability of each dimension, (300,); 65,536 is not a multiple of 300."""
    return np.bincount(np.arange(_VALUES) % _DIMENSIONS) / _VALUES


@lru_cache(maxsize=4)
def _projection(dimension: int) -> NDArray[np.float64]:
    """Public directions, (300, d), the same on every machine."""
    deviates = Secret(bytes(32)).normals("sir projection", _DIMENSIONS * dimension)
    return deviates.astype(np.float64).reshape(_DIMENSIONS, dimension)
