"""The generation functions of ``import hammingmark``."""

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
from hammingmark.models.catalogue import CATALOGUE, DEFAULT_GENERATOR
from hammingmark.models.entries import GeneratorCard
from hammingmark.prompts import PromptInput, as_prompt
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Generation, Sampling

PROCEDURES = {"default": GenerationConfig(), "paper": PAPER}


def default_backend(key: WatermarkKey | None) -> str:
    """The default language model for a key: that of its tokenizer, if it has one."""
    config = key.config if key else None
    return config.tokenizer.name if isinstance(config, TokenConfig) else DEFAULT_GENERATOR


def require_tokenizer(key: WatermarkKey, backend: str) -> None:
    """Refuse a model of the catalogue with another tokenizer than the key's, before its download.

    Other models are compared by `writer`, which reads their tokenizer.

    Raises:
        KeyMismatch: the key was made for another tokenizer.
    """
    if not isinstance(key.config, TokenConfig):
        return
    recorded = key.config.tokenizer.name
    cards = [_generator_card(name) for name in (recorded, backend)]
    if all(cards) and len({card.tokenizer for card in cards if card}) > 1:
        raise KeyMismatch(
            f"Key {key.id} was made for the tokenizer of {recorded}, and {backend} has another. "
            "Use that model, or a key made for this tokenizer."
        )


def _generator_card(name: str) -> GeneratorCard | None:
    """The card of a language model of the catalogue by its specification."""
    model = name.removeprefix("transformers:")
    card = CATALOGUE[model].card if model in CATALOGUE else None
    return card if isinstance(card, GeneratorCard) else None


def writer(
    key: WatermarkKey | str | Path | None,
    *,
    backend: Backend | str | None = None,
    encoder: Encoder | str | None = None,
    splitter: Splitter | None = None,
    config: GenerationConfig | None = None,
) -> Writer:
    """A writer of marked text or, without a key, of unmarked text drawn in the same way.

    Args:
        key: a key, or its name or file.
        backend: a language model or its specification; the model specified last stays loaded.
        encoder: an encoder or its specification; by default that of the key.
        splitter: by default that of the key.
        config: generation settings.

    Raises:
        KeyMismatch: the key was made for another encoder or tokenizer, or is retired.
        BackendError: the key marks tokens, and the backend gives no access to its logits.
    """
    loaded = load_key(key) if isinstance(key, (str, Path)) else key
    if loaded and loaded.retired:
        raise KeyMismatch(
            f"Key {loaded.parent or loaded.id} was retired on {loaded.retired:%Y-%m-%d} and no "
            f"longer marks. Use its successor{f' {loaded.successor}' if loaded.successor else ''}."
        )
    if loaded and isinstance(backend, str):
        require_tokenizer(loaded, backend)
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
    """Continue a text or answer a chat with marked text. For many prompts, use a `writer`.

    Args:
        prompt: a text, or messages such as ``[{"role": "user", "content": "…"}]``.
        key: a key, or its name or file; None generates text without the watermark.
        max_tokens: the maximum number of tokens.
        seed: of all random draws.
        backend: a language model or its specification.
        sampling: by default that of the generation settings, for a text or a chat.
    """
    config = GenerationConfig(max_tokens=max_tokens)
    if sampling is not None:
        config = config.with_sampling(sampling)
    return writer(key, backend=backend, config=config).write(as_prompt(prompt), seed=seed)
