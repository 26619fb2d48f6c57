"""The entries of the catalogue: models, their files, and cards that say how to run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hammingmark.models.hub import HubFile
from hammingmark.models.sources import Source, download_size

Role = Literal["encoder", "generator", "translator", "corpus", "lexicon"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model.

    Attributes:
        name: its path in the model's folder, with forward slashes.
        sha256: the only content that is accepted.
        size: bytes.
        sources: where to get it, the preferred one first.
    """

    name: str
    sha256: str
    size: int
    sources: tuple[Source, ...]

    @property
    def hub_file(self) -> HubFile | None:
        """The file on the hub, if the hub has it."""
        return next((source for source in self.sources if isinstance(source, HubFile)), None)

    @property
    def without_hub(self) -> Source:
        """The preferred source if no hub can be reached."""
        others = [source for source in self.sources if not isinstance(source, HubFile)]
        return (others or self.sources)[0]


@dataclass(frozen=True, slots=True)
class EncoderCard:
    """How to run an encoder.

    Attributes:
        runtime: the name of the encoder in the registry.
        pooling: how token vectors become one sentence vector.
        max_tokens: longer sentences are truncated.
        dimension: d, the length of an embedding.
        prefix: text to put before every sentence.
        language: of its training texts; empty if there were several.
    """

    runtime: Literal["onnx", "static", "sbert"]
    pooling: Literal["mean", "cls"]
    max_tokens: int
    dimension: int
    prefix: str = ""
    language: str = "en"


@dataclass(frozen=True, slots=True)
class GeneratorCard:
    """How to run a generator.

    Attributes:
        file: the GGUF file in the model's folder.
        context: tokens of context for which it was trained.
        chat: whether it has a chat template.
        tokenizer: the name of its tokenizer, which other models may share.
    """

    file: str
    context: int
    chat: bool
    tokenizer: str


@dataclass(frozen=True, slots=True)
class Model:
    """One entry of the catalogue."""

    name: str
    role: Role
    licence: str
    description: str
    files: tuple[ModelFile, ...]
    card: EncoderCard | GeneratorCard | None = None

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(file.size for file in self.files)

    @property
    def download_size(self) -> int:
        """Bytes to download if no hub can be reached; from a hub, `size` bytes are downloaded."""
        return download_size(file.without_hub for file in self.files)
