"""Keys: made for a method and its parts, found by name, and held against what is used with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from hammingmark import registry
from hammingmark.assembly.backends import load_tokenizer
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.machine import environment_now
from hammingmark.assembly.parts import DEFAULT_SPLITTER, load_splitter
from hammingmark.environment import Environment
from hammingmark.errors import InputError, KeyMismatch
from hammingmark.keyring import Keyring
from hammingmark.keys import Secret, WatermarkKey
from hammingmark.method_config import (
    EncoderId,
    MethodConfig,
    SentenceConfig,
    SplitterId,
    TokenConfig,
    TokenizerId,
    parameters_of_config,
)
from hammingmark.parameters import read_parameters
from hammingmark.protocols import Encoder, Splitter, Tokenizer, Watermark
from hammingmark.store.catalogue import DEFAULT_ENCODER

DEFAULT_METHOD = "bilinear"
OTHER_METHODS = ("hamming",)
"""Chosen where a preset or a parameter of theirs is asked for and no method is."""


def new_key(
    encoder: Encoder | str = DEFAULT_ENCODER,
    *,
    method: str | None = None,
    tokenizer: Tokenizer | str | None = None,
    splitter: str = DEFAULT_SPLITTER,
    language: str = "en",
    preset: str = "default",
    note: str = "",
    parameters: Mapping[str, object] | None = None,
    **more: object,
) -> WatermarkKey:
    """A key for a method and the parts that it is tied to, by a preset.

    Args:
        encoder: an encoder, or the name of one, for a method that marks sentences.
        method: a registered method; by default the bilinear form, or another of ours that has the
            preset and the parameters that are asked for.
        tokenizer: a tokenizer, or what a user types to get the model whose it is, for a method
            that marks tokens.
        splitter: the name of the splitter that will be used.
        language: of the texts.
        preset: a named choice of the method's parameters: ``default``, ``economical`` (fewer
            candidates), ``robust`` (more evidence), and ``paper`` (of the method ``hamming``: 8
            bits, of which 6 must match).
        note: what the key is for.
        parameters: of the method, in place of the preset's.
        more: the same by their names; None leaves one as it is.

    Raises:
        InputError: a parameter is unknown, or of another kind.
    """
    told = {name: value for name, value in more.items() if value is not None}
    given = {**(parameters or {}), **told}
    method = method or method_with(preset, given)
    config: type[MethodConfig] = registry.find("methods", method).Config
    chosen: dict[str, Any] = read_parameters(
        parameters_of_config(config), given, of=f"the method {method!r}"
    )
    if issubclass(config, SentenceConfig):
        part = load_encoder(encoder) if isinstance(encoder, str) else encoder
        chosen["encoder"] = EncoderId.of(part)
        load_splitter(splitter, language=language)  # refuses what there is not
        chosen["splitter"] = SplitterId(splitter, language)
    if issubclass(config, TokenConfig):
        if tokenizer is None:
            raise InputError(
                f"The method {method!r} marks tokens: say which model's, such as "
                "transformers:smollm2."
            )
        words = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        chosen["tokenizer"] = TokenizerId(words.name, words.fingerprint, words.size)
    return WatermarkKey(Secret.fresh(), config.from_preset(preset, **chosen), note)


def method_with(preset: str, parameters: Collection[str]) -> str:
    """The method of a key for which none was named: ours that has all that was asked for.

    The default one if there is none, so that its error says what is wrong.
    """
    for name in (DEFAULT_METHOD, *OTHER_METHODS):
        config: type[MethodConfig] = registry.find("methods", name).Config
        if preset in config.presets and set(parameters) <= set(parameters_of_config(config)):
            return name
    return DEFAULT_METHOD


def load_key(reference: str | Path, *, environment: Environment | None = None) -> WatermarkKey:
    """A key by its file, or by its name or id in the keyring."""
    return Keyring((environment or environment_now()).keyring).find(str(reference)).key


def method_of(key: WatermarkKey, **options: object) -> Watermark:
    """The method of a key, under it.

    Args:
        key: the key.
        options: how the method is to judge; no part of the key.
    """
    watermark: Watermark = registry.find("methods", key.config.method)(key, **options)
    return watermark


def require_part(
    key: WatermarkKey, kind: Literal["encoder", "tokenizer"], part: Encoder | Tokenizer
) -> None:
    """Refuse a key that was made for another encoder or tokenizer.

    Raises:
        KeyMismatch: naming the one that the key wants.
    """
    wanted: EncoderId | TokenizerId = getattr(key.config, kind)
    if wanted.fingerprint != part.fingerprint:
        apart, use = "", "that model"
        if kind == "encoder":
            apart, use = ", and their hashes have nothing in common", f"--encoder {wanted.name}"
        raise KeyMismatch(
            f"Key {key.id} was made for the {kind} {wanted.name!r} (fingerprint "
            f"{wanted.fingerprint[:12]}); this one is {part.name!r} "
            f"({part.fingerprint[:12]}){apart}. Use {use}, or a key made for this {kind}."
        )


def splitter_of(
    key: WatermarkKey | None, *, name: str | None = None, language: str | None = None
) -> Splitter:
    """The splitter that a key was made for; one that was asked for must be the same.

    Keys from before it was recorded go with any.

    Raises:
        KeyMismatch: naming the splitter and the language that the key wants.
    """
    config = key.config if key else None
    wanted = config.splitter if isinstance(config, SentenceConfig) else None
    if key is None or wanted is None:
        return load_splitter(name or DEFAULT_SPLITTER, language=language or "en")
    asked = SplitterId(name or wanted.name, language or wanted.language)
    splitter = load_splitter(asked.name, language=asked.language)
    if asked != wanted:
        raise KeyMismatch(
            f"Key {key.id} was made for texts in the language {wanted.language!r}, split by "
            f"{wanted.name!r}; otherwise split, they show no mark. Leave --splitter and --language "
            "out, or use another key."
        )
    return splitter
