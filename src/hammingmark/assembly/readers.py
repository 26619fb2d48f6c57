"""The readers of texts that the keys of a detector need."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from hammingmark.assembly.backends import load_tokenizer, shared_backend, tokenizer_of
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import require_part, splitter_of
from hammingmark.detection.reader import (
    ContextReader,
    SentenceReader,
    TextReader,
    TokenReader,
)
from hammingmark.errors import InputError
from hammingmark.keys.config import (
    EMBEDDING,
    PARTS,
    ContextConfig,
    SentenceConfig,
    TokenConfig,
    TokenizerId,
)
from hammingmark.keys.key import WatermarkKey
from hammingmark.protocols import Backend, Encoder, Splitter, Tokenizer, Watermark


@dataclass
class ReaderFactory:
    """Makes the reader of each watermark, from the caller's components and those of the keys.

    Watermarks with the same components share a reader, so that a text is read once for all of them.

    Attributes:
        encoder: an encoder or its specification; by default that of each key.
        tokenizer: a tokenizer or the specification of its model; likewise.
        splitter: likewise.
        backend: the language model that wrote the texts, for methods that draw sentences again.
        edits: whether sentences may have been joined, split or inserted.
        load_encoder: loads an encoder by its name.
        load_tokenizer: loads the tokenizer of a key.
    """

    encoder: Encoder | str | None = None
    tokenizer: Tokenizer | str | None = None
    splitter: Splitter | None = None
    backend: Backend | str | None = None
    edits: bool = False
    load_encoder: Callable[[str], Encoder] | None = None
    load_tokenizer: Callable[[TokenizerId], Tokenizer] | None = None
    _readers: dict[Hashable, TextReader] = field(default_factory=dict, init=False)

    def reader(self, watermark: Watermark) -> TextReader:
        """The reader of texts for a watermark.

        Raises:
            KeyMismatch: the key was made for another encoder or tokenizer.
            InputError: the method does not support edits.
        """
        config = watermark.key.config
        components = tuple(getattr(config, part, None) for part in PARTS)
        if watermark.capabilities.samples:
            components += (watermark.capabilities.samples.samples,)
        elif watermark.capabilities.context:
            components += (config,)
        if components not in self._readers:
            self._readers[components] = self._make(watermark)
        return self._readers[components]

    def _make(self, watermark: Watermark) -> TextReader:
        key, config = watermark.key, watermark.key.config
        resampling, contexts = watermark.capabilities.samples, watermark.capabilities.context
        if self.edits and (isinstance(config, TokenConfig) or resampling):
            raise InputError(f"The method {config.method!r} does not support edits.")
        encoder = self._encoder(key, config) if isinstance(config, EMBEDDING) else None
        if isinstance(config, TokenConfig):
            tokenizer = self._tokenizer(key, config)
            if encoder is None:
                return TokenReader(tokenizer)
            assert contexts is not None, f"{watermark.name} declares no context"
            return ContextReader(tokenizer, encoder, contexts)
        assert encoder is not None
        splitter = self.splitter or splitter_of(key)
        if resampling is None or self.backend is None:
            return SentenceReader(splitter, encoder, edits=self.edits)
        from hammingmark.detection.resampling import SamplingReader  # imports generation

        backend = self.backend
        model = shared_backend(backend) if isinstance(backend, str) else backend
        return SamplingReader(splitter, encoder, model, resampling.samples)

    def _encoder(self, key: WatermarkKey, config: SentenceConfig | ContextConfig) -> Encoder:
        encoder = self.encoder
        if encoder is None or isinstance(encoder, str):
            encoder = (self.load_encoder or load_encoder)(encoder or config.encoder.name)
        require_part(key, "encoder", encoder)
        return encoder

    def _tokenizer(self, key: WatermarkKey, config: TokenConfig) -> Tokenizer:
        tokenizer = self.tokenizer
        if isinstance(tokenizer, str):
            tokenizer = load_tokenizer(tokenizer)
        elif tokenizer is None:
            tokenizer = (self.load_tokenizer or tokenizer_of)(config.tokenizer)
        require_part(key, "tokenizer", tokenizer)
        return tokenizer
