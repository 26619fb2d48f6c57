"""Keys: made for a method and its parts, found by name, and held against what is used with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from inspect import cleandoc
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
from hammingmark.keys.parameters import read_parameters
from hammingmark.models.catalogue import CATALOGUE, DEFAULT_ENCODER, DEFAULT_GENERATOR
from hammingmark.protocols import Capabilities, Encoder, Splitter, Tokenizer, Watermark

DEFAULT_METHOD = "bilinear"
OTHER_METHODS = ("hamming",)
"""Chosen where a preset or a parameter of theirs is asked for and no method is."""

_STAND_INS: Mapping[str, Any] = {
    "encoder": EncoderId("", "", 1),
    "tokenizer": TokenizerId("", "", 1 << 24),
}
"""In the place of parts, where what a configuration says of its parameters is asked."""

_OPTION_PARTS = {
    "encoder": "encoder",
    "splitter": "splitter",
    "language": "splitter",
    "backend": "tokenizer",
}
"""Which part of a key each option of the command line chooses."""


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
        encoder: an encoder, or the name of one, for a method that marks sentences or looks at what
            they mean.
        method: a registered method; by default the bilinear form, or another of ours that has the
            preset and the parameters that are asked for.
        tokenizer: a tokenizer, or what a user types to get the model whose it is, for a method
            that marks tokens; by default that of the default language model.
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
    tokenizer = tokenizer or f"transformers:{DEFAULT_GENERATOR}"
    chosen = check_key(method, preset=preset, parameters=given, tokenizer=tokenizer)
    config = _config_of(method)
    if issubclass(config, EMBEDDING):
        part = load_encoder(encoder) if isinstance(encoder, str) else encoder
        chosen["encoder"] = EncoderId.of(part)
    if issubclass(config, SentenceConfig):
        load_splitter(splitter, language=language)  # refuses what there is not
        chosen["splitter"] = SplitterId(splitter, language)
    if issubclass(config, TokenConfig):
        # Refuses parameters out of their range before a tokenizer is read, which may take long.
        config.from_preset(preset, **chosen, tokenizer=_STAND_INS["tokenizer"])
        words = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        keep_tokenizer(words)
        chosen["tokenizer"] = TokenizerId(words.name, words.fingerprint, words.size)
    return WatermarkKey(Secret.fresh(), config.from_preset(preset, **chosen), note)


def check_key(
    method: str,
    *,
    preset: str = "default",
    parameters: Mapping[str, object],
    tokenizer: Tokenizer | str | None = None,
) -> dict[str, Any]:
    """The parameters of a key as its configuration takes them, before any part is loaded.

    Raises:
        InputError: the method has no such preset or parameter, or the model that is named has no
            tokenizer for it.
    """
    config = _config_of(method)
    config.require_preset(preset)
    chosen = read_parameters(parameters_of_config(config), parameters, of=f"the method {method!r}")
    if issubclass(config, TokenConfig) and isinstance(tokenizer, str):
        _require_model_with_tokens(tokenizer)
    return chosen


def _require_model_with_tokens(text: str) -> None:
    """Refuse what a user typed for a model, where another way to type it is meant."""
    known = CATALOGUE[text].role == "generator" if text in CATALOGUE else text.endswith(".gguf")
    kind, _, model = text.partition(":")
    if known and kind != "transformers":
        raise InputError(
            f"A method that marks tokens needs the model in the library transformers. Write "
            f"transformers:{text}."
        )
    if kind == "transformers" and not model:
        raise InputError(
            f"{text!r} names no model. Write transformers:MODEL, where MODEL is a name of the "
            f"catalogue such as {DEFAULT_GENERATOR}, a folder, a .gguf file or a name of the hub."
        )


def _config_of(method: str) -> type[MethodConfig]:
    config: type[MethodConfig] = registry.find("methods", method).Config
    return config


def option_error(method: str, option: str, *, has_no: str) -> InputError:
    """The error for an option that means nothing to a method: ``has_no`` says what it lacks."""
    marks = "sentences" if issubclass(_config_of(method), SentenceConfig) else "tokens"
    return InputError(
        f"The method {method!r} marks {marks} and has no {has_no}; leave --{option} out."
    )


def require_parts_of_options(method: str, options: Collection[str]) -> None:
    """Refuse options of the command line that choose a part which keys of a method do not have.

    Raises:
        InputError: naming the first of them.
    """
    held = {field.name for field in fields(_config_of(method))}
    for option in options:
        part = _OPTION_PARTS.get(option)
        if part is not None and part not in held:
            raise option_error(method, option, has_no=option if option == "language" else part)


def explain_parameters(method: str) -> dict[str, tuple[object, str]]:
    """By name, what a parameter of a method is by default and what it means.

    The default is that of the preset ``default``, `REQUIRED` where it is not known without the
    parts of a key; the meaning is what the docstring of the configuration says, perhaps nothing.
    """
    config = _config_of(method)
    known = parameters_of_config(config)
    defaults = {name: each.default for name, each in known.items()}
    held = {field.name for field in fields(config)}
    try:
        made = config.from_preset(
            "default", **{name: part for name, part in _STAND_INS.items() if name in held}
        )
    except HammingMarkError:  # it depends on the parts
        pass
    else:
        defaults = {name: getattr(made, name) for name in known}
    meanings = _meanings(config)
    return {name: (defaults[name], meanings.get(name, "")) for name in known}


def _meanings(config: type[MethodConfig]) -> dict[str, str]:
    """What the docstrings of a configuration and of those it extends say of attributes."""
    found: dict[str, str] = {}
    for each in reversed(config.__mro__):
        _, _, section = cleandoc(each.__doc__ or "").partition("\nAttributes:\n")
        name = ""
        for line in section.splitlines():
            if not line.startswith("    "):
                break
            if line.startswith("     "):
                found[name] = f"{found[name]} {line.strip()}".replace("``", "")
            else:
                name, _, begun = line.strip().partition(": ")
                found[name] = begun.replace("``", "")
    return found


def method_with(preset: str, parameters: Collection[str]) -> str:
    """The method of a key for which none was named: ours that has all that was asked for.

    The default one if there is none, so that its error says what is wrong.
    """
    for name in (DEFAULT_METHOD, *OTHER_METHODS):
        config = _config_of(name)
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

    Raises:
        InputError: its class does not declare its capabilities.
    """
    watermark: Watermark = registry.find("methods", key.config.method)(key, **options)
    if not isinstance(getattr(watermark, "capabilities", None), Capabilities):
        raise InputError(
            f"The method {key.config.method!r} does not say what it can do: its class needs a "
            "property `capabilities` (protocols.Capabilities)."
        )
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
        InputError: one was asked for, and the key marks tokens.
    """
    config = key.config if key else None
    if isinstance(config, TokenConfig):
        asked_for = {"splitter": name, "language": language}
        given = [option for option, value in asked_for.items() if value is not None]
        require_parts_of_options(config.method, given)
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
