"""The front door's functions that write."""

from __future__ import annotations

from pathlib import Path

from hammingmark.assembly.backends import shared_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import (
    load_key,
    method_of,
    require_part,
    splitter_of,
)
from hammingmark.errors import KeyMismatch
from hammingmark.generation.generate import PAPER, GenerationConfig, Writer
from hammingmark.keys.config import EMBEDDING, TokenConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.models.catalogue import DEFAULT_GENERATOR
from hammingmark.prompts import PromptInput, as_prompt
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Generation, Sampling

PROCEDURES = {"default": GenerationConfig(), "paper": PAPER}


def default_backend(key: WatermarkKey | None) -> str:
    """The language model to use with a key where nobody says: the one whose tokens it marks."""
    config = key.config if key else None
    return config.tokenizer.name if isinstance(config, TokenConfig) else DEFAULT_GENERATOR


def writer(
    key: WatermarkKey | str | Path | None,
    *,
    backend: Backend | str | None = None,
    encoder: Encoder | str | None = None,
    splitter: Splitter | None = None,
    config: GenerationConfig | None = None,
) -> Writer:
    """A writer of marked text; without a key, of unmarked text by the same means.

    Args:
        key: a key, its name or its file.
        backend: the language model, or what a user types to get it; the one that was named last
            is kept.
        encoder: by default the one that the key was made for.
        splitter: likewise.
        config: generation settings.

    Raises:
        KeyMismatch: the key was made for another encoder or tokenizer, or has been retired.
        BackendError: the key marks tokens, and the backend does not let anybody at its logits.
    """
    loaded = load_key(key) if isinstance(key, (str, Path)) else key
    if loaded and loaded.retired:
        raise KeyMismatch(
            f"Key {loaded.parent or loaded.id} was retired on {loaded.retired:%Y-%m-%d} and no "
            f"longer marks; use its successor{f' {loaded.successor}' if loaded.successor else ''}."
        )
    if backend is None or isinstance(backend, str):
        backend = shared_backend(backend or default_backend(loaded))
    method_config = loaded.config if loaded else None
    if loaded and isinstance(method_config, EMBEDDING):
        if encoder is None or isinstance(encoder, str):
            encoder = load_encoder(encoder or method_config.encoder.name)
        require_part(loaded, "encoder", encoder)
    load_tokenizer = backend.capabilities.load_tokenizer
    if loaded and isinstance(method_config, TokenConfig) and load_tokenizer:
        require_part(loaded, "tokenizer", load_tokenizer())
    return Writer(
        backend=backend,
        splitter=splitter or splitter_of(loaded),
        encoder=None if isinstance(encoder, str) else encoder,
        watermark=method_of(loaded) if loaded else None,
        config=config or GenerationConfig(),
    )


def generate(
    prompt: PromptInput,
    *,
    key: WatermarkKey | str | Path | None,
    max_tokens: int = 200,
    seed: int = 0,
    backend: Backend | str | None = None,
    sampling: Sampling | None = None,
) -> Generation:
    """Continue a text, or answer a chat, with marked text. For many, make one `writer`.

    Args:
        prompt: a text, or messages such as ``[{"role": "user", "content": "…"}]``.
        key: a key, its name or its file; None writes text without the watermark.
        max_tokens: tokens to write at most.
        seed: decides every draw.
        backend: the language model.
        sampling: how it draws; by default what suits a text or a chat.
    """
    config = GenerationConfig(max_tokens=max_tokens)
    if sampling is not None:
        config = config.with_sampling(sampling)
    return writer(key, backend=backend, config=config).write(as_prompt(prompt), seed=seed)
