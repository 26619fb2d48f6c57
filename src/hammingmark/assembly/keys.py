"""Keys: creating and loading them, and checking components against them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from hammingmark import registry
from hammingmark.assembly.backends import keep_tokenizer, load_tokenizer
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.environment import Environment, environment_now
from hammingmark.assembly.parts import DEFAULT_SPLITTER, load_splitter
from hammingmark.errors import HammingMarkError, InputError, KeyMismatch
from hammingmark.keys.config import (
    EMBEDDING,
    EncoderId,
    MethodConfig,
    SentenceConfig,
    SplitterId,
    TokenConfig,
    TokenizerId,
    parameters_of_config,
)
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.keys.keyring import Keyring
from hammingmark.keys.parameters import meanings_of, read_parameters
from hammingmark.models.catalogue import CATALOGUE, DEFAULT_ENCODER, DEFAULT_GENERATOR
from hammingmark.protocols import Capabilities, Encoder, Splitter, Tokenizer, Watermark

DEFAULT_METHOD = "bilinear"
OTHER_METHODS = ("hamming",)
"""Used if a preset or a parameter of theirs is given without a method."""

_STAND_INS: Mapping[str, Any] = {
    "encoder": EncoderId("", "", 1),
    "tokenizer": TokenizerId("", "", 1 << 24),
}
"""Placeholders for components, to read the parameters of a configuration."""

_OPTION_PARTS = {
    "encoder": "encoder",
    "splitter": "splitter",
    "language": "splitter",
    "backend": "tokenizer",
}
"""The component of a key that an option of the command line sets."""


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
    """Create a key for a method and the components to which it is tied.

    Args:
        encoder: an encoder or its specification, for a method that embeds sentences or contexts.
        method: a registered method; by default ``bilinear``, or ``hamming`` if only it has the
            given preset and parameters.
        tokenizer: a tokenizer or the specification of its model, for a method that marks tokens;
            by default that of the default language model.
        splitter: the name of a splitter.
        language: of the texts.
        preset: named parameters of the method: ``default``, ``economical`` (fewer candidates),
            ``robust`` (more evidence), and ``paper`` (of the method ``hamming``: 8 bits, of which
            6 must match).
        note: what the key is for.
        parameters: of the method; they override the preset.
        more: further parameters by name; None leaves a parameter at its preset.

    Raises:
        InputError: a parameter is unknown or of the wrong type.
    """
    named = {name: value for name, value in more.items() if value is not None}
    overrides = {**(parameters or {}), **named}
    method = method or method_with(preset, overrides)
    tokenizer = tokenizer or f"transformers:{DEFAULT_GENERATOR}"
    values = check_key(method, preset=preset, parameters=overrides, tokenizer=tokenizer)
    config = _config_of(method)
    if issubclass(config, EMBEDDING):
        encoder = load_encoder(encoder) if isinstance(encoder, str) else encoder
        values["encoder"] = EncoderId.of(encoder)
    if issubclass(config, SentenceConfig):
        load_splitter(splitter, language=language)  # refuses unknown splitters and languages
        values["splitter"] = SplitterId(splitter, language)
    if issubclass(config, TokenConfig):
        # Refuses parameters out of range before the tokenizer is read, which may take long.
        config.from_preset(preset, **values, tokenizer=_STAND_INS["tokenizer"])
        tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        keep_tokenizer(tokenizer)
        values["tokenizer"] = TokenizerId(tokenizer.name, tokenizer.fingerprint, tokenizer.size)
    return WatermarkKey(Secret.fresh(), config.from_preset(preset, **values), note)


def check_key(
    method: str,
    *,
    preset: str = "default",
    parameters: Mapping[str, object],
    tokenizer: Tokenizer | str | None = None,
) -> dict[str, Any]:
    """Check the parameters of a key and convert them, before any component is loaded.

    Raises:
        InputError: the method has no such preset or parameter, or the specified model has no
            tokenizer.
    """
    config = _config_of(method)
    config.require_preset(preset)
    values = read_parameters(parameters_of_config(config), parameters, of=f"the method {method!r}")
    if issubclass(config, TokenConfig) and isinstance(tokenizer, str):
        _require_tokenizer_model(tokenizer)
    return values


def _require_tokenizer_model(text: str) -> None:
    """Refuse the specification of a model that gives no tokenizer, and say how to write it."""
    is_gguf = CATALOGUE[text].role == "generator" if text in CATALOGUE else text.endswith(".gguf")
    kind, _, model = text.partition(":")
    if is_gguf and kind != "transformers":
        raise InputError(
            f"A method that marks tokens needs a model of the transformers library. Write "
            f"transformers:{text}."
        )
    if kind == "transformers" and not model:
        raise InputError(
            f"{text!r} names no model. Write transformers:MODEL, where MODEL is a catalogue name "
            f"such as {DEFAULT_GENERATOR}, a folder, a .gguf file or a hub name."
        )


def _config_of(method: str) -> type[MethodConfig]:
    config: type[MethodConfig] = registry.find("methods", method).Config
    return config


def option_error(method: str, option: str, *, has_no: str) -> InputError:
    """The error for an option that a method does not use; ``has_no`` names what it lacks."""
    marks = "sentences" if issubclass(_config_of(method), SentenceConfig) else "tokens"
    return InputError(f"The method {method!r} marks {marks} and has no {has_no}. Omit --{option}.")


def require_parts_of_options(method: str, options: Collection[str]) -> None:
    """Refuse options of the command line for components that keys of a method do not have.

    Raises:
        InputError: names the first such option.
    """
    field_names = {field.name for field in fields(_config_of(method))}
    for option in options:
        part = _OPTION_PARTS.get(option)
        if part is not None and part not in field_names:
            raise option_error(method, option, has_no=option if option == "language" else part)


def explain_parameters(method: str) -> dict[str, tuple[object, str]]:
    """The defaults and descriptions of a method's parameters, by name.

    The default is that of the preset ``default``, or `REQUIRED` if it depends on the components of
    a key. The description is that of the configuration's docstring, and may be empty.
    """
    config = _config_of(method)
    parameters = parameters_of_config(config)
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    field_names = {field.name for field in fields(config)}
    try:
        preset = config.from_preset(
            "default", **{name: part for name, part in _STAND_INS.items() if name in field_names}
        )
    except HammingMarkError:  # the preset depends on the components
        pass
    else:
        defaults = {name: getattr(preset, name) for name in parameters}
    meanings = meanings_of(config)
    return {name: (defaults[name], meanings.get(name, "")) for name in parameters}


def method_with(preset: str, parameters: Collection[str]) -> str:
    """The method of a key created without one: the first that has the preset and parameters.

    If there is none, the default method, whose error then says what is wrong.
    """
    for name in (DEFAULT_METHOD, *OTHER_METHODS):
        config = _config_of(name)
        if preset in config.presets and set(parameters) <= set(parameters_of_config(config)):
            return name
    return DEFAULT_METHOD


def load_key(reference: str | Path, *, environment: Environment | None = None) -> WatermarkKey:
    """Load a key by its file, or by its name or id in the keyring."""
    return Keyring((environment or environment_now()).keyring).find(str(reference)).key


def method_of(key: WatermarkKey, **options: object) -> Watermark:
    """Construct the watermark of a key.

    Args:
        key: the key.
        options: arguments of the method for detection, which the key does not contain.

    Raises:
        InputError: the method does not declare its capabilities.
    """
    watermark: Watermark = registry.find("methods", key.config.method)(key, **options)
    if not isinstance(getattr(watermark, "capabilities", None), Capabilities):
        raise InputError(
            f"The method {key.config.method!r} does not declare its capabilities. Its class needs "
            "a property `capabilities` (protocols.Capabilities)."
        )
    return watermark


def require_part(
    key: WatermarkKey, kind: Literal["encoder", "tokenizer"], part: Encoder | Tokenizer
) -> None:
    """Refuse a key that was made for another encoder or tokenizer.

    Raises:
        KeyMismatch: names the one of the key.
    """
    recorded: EncoderId | TokenizerId = getattr(key.config, kind)
    if recorded.fingerprint != part.fingerprint:
        remedy = f"--encoder {recorded.name}" if kind == "encoder" else "that model"
        raise KeyMismatch(
            f"Key {key.id} was made for the {kind} {recorded.name!r} (fingerprint "
            f"{recorded.fingerprint[:12]}); this one is {part.name!r} "
            f"({part.fingerprint[:12]}). Use {remedy}, or a key made for this {kind}."
        )


def splitter_of(
    key: WatermarkKey | None, *, name: str | None = None, language: str | None = None
) -> Splitter:
    """The splitter of a key; an explicit one must be the same.

    Older keys do not record a splitter and accept any.

    Raises:
        KeyMismatch: names the splitter and the language of the key.
        InputError: a splitter or language is given, and the key marks tokens.
    """
    config = key.config if key else None
    if isinstance(config, TokenConfig):
        options = {"splitter": name, "language": language}
        explicit = [option for option, value in options.items() if value is not None]
        require_parts_of_options(config.method, explicit)
    recorded = config.splitter if isinstance(config, SentenceConfig) else None
    if key is None or recorded is None:
        return load_splitter(name or DEFAULT_SPLITTER, language=language or "en")
    requested = SplitterId(name or recorded.name, language or recorded.language)
    splitter = load_splitter(requested.name, language=requested.language)
    if requested != recorded:
        raise KeyMismatch(
            f"Key {key.id} was made for the language {recorded.language!r} and the splitter "
            f"{recorded.name!r}. With others the mark does not show. Omit --splitter and "
            "--language, or use another key."
        )
    return splitter
