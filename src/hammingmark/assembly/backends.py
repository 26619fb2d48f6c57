"""Language models and tokenizers from their specifications."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hammingmark import registry
from hammingmark.assembly.environment import environment_now
from hammingmark.assembly.parts import Resolved, build, model_and_url, resolve_name
from hammingmark.backends.tokenizer import SavedTokenizer, TransformersTokenizer
from hammingmark.errors import HammingMarkError, InputError
from hammingmark.keys.config import TokenizerId
from hammingmark.keys.parameters import parameters_of
from hammingmark.lazy import SingleFlightCache
from hammingmark.models.catalogue import CATALOGUE, DEFAULT_GENERATOR
from hammingmark.models.entries import GeneratorCard
from hammingmark.models.store import ModelStore
from hammingmark.protocols import Backend, Tokenizer

# A model is released before another one is loaded.
_shared: SingleFlightCache[Backend] = SingleFlightCache(1)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")  # a key file may contain anything


def load_backend(
    text: str = DEFAULT_GENERATOR,
    *,
    store: ModelStore | None = None,
    width: int | None = None,
    parallel: int | None = None,
    context: int | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Backend:
    """Load a language model.

    Args:
        text: a name of the catalogue, a GGUF file, ``openai:MODEL@URL`` for an endpoint (its key
            is read from OPENAI_API_KEY; without MODEL, its only model),
            ``transformers:MODEL`` for a name of the catalogue, a folder, a GGUF file or a hub
            name in that library, or ``NAME`` or ``NAME:ARGUMENT`` of an installed package.
        store: where catalogue models are kept.
        width: the number of candidates drawn at once for one text; by default set by the backend.
        parallel: the number for all texts together; likewise.
        context: the maximum number of tokens of a prompt and its continuation together; likewise,
            and at most the context for which the model was trained.
        parameters: further arguments of its constructor.
    """
    values = dict(parameters or {})
    for name, value in (("width", width), ("parallel", parallel)):
        if value is not None:
            if value < 1:
                raise InputError(f"{name} must be at least 1, not {value}.")
            values[name] = value
    if context is not None:
        part = registry.find("backends", resolve_backend(text).name)
        if "context" not in parameters_of(part):
            raise InputError("The context of an endpoint is set by its server. Omit --context.")
        values["context"] = context
    backend: Backend = build("backends", text, values, store=store)
    return backend


def shared_backend(text: str) -> Backend:
    """The most recently loaded language model, if it is this one; otherwise load it."""
    return _shared.get(text, lambda: load_backend(text))


def _forget_after_fork() -> None:
    """Drop the model of the parent process after a fork."""
    global _shared
    _shared = SingleFlightCache(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def load_tokenizer(
    text: str,
    *,
    store: ModelStore | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Tokenizer:
    """Load the tokenizer of a language model from the specification of the model.

    Raises:
        InputError: the model has no tokenizer that can be read.
    """
    tokenizer: Tokenizer = build("tokenizers", text, parameters, store=store)
    return tokenizer


def tokenizer_of(recorded: TokenizerId) -> Tokenizer:
    """The tokenizer of a key, from its file or from its model.

    The tokenizer of the model may have changed; callers compare it with the key.

    Raises:
        InputError: the model has no tokenizer that can be read.
    """
    if _FINGERPRINT.fullmatch(recorded.fingerprint):
        for folder in _tokenizer_folders():
            if (folder / recorded.fingerprint).is_file():
                return SavedTokenizer(folder / recorded.fingerprint, name=recorded.name)
    try:
        tokenizer = load_tokenizer(recorded.name)
        keep_tokenizer(tokenizer)  # which reads it
    except HammingMarkError as error:
        raise type(error)(
            f"The tokenizer of the key is missing. {str(error).rstrip('.')}. Or copy the folder "
            f"'tokenizers', which is beside the key files where the key was created, so that this "
            f"file exists: {_tokenizer_folders()[0] / recorded.fingerprint[:64]}"
        ) from None
    return tokenizer


def keep_tokenizer(tokenizer: Tokenizer) -> None:
    """Save a tokenizer beside the keys, if it can be saved.

    Detection needs it, and the cache of models may be deleted.
    """
    if isinstance(tokenizer, TransformersTokenizer):
        with suppress(OSError):
            tokenizer.save(_tokenizer_folders()[0])


def _tokenizer_folders() -> tuple[Path, Path]:
    """The folder of saved tokenizers, and the one of earlier versions."""
    environment = environment_now()
    return environment.keyring / "tokenizers", environment.cache / "tokenizers"


def resolve_tokenizer(text: str) -> Resolved:
    """The registered tokenizer of a specification, and its arguments.

    Raises:
        InputError: no tokenizer fits.
    """
    kind, _, rest = text.partition(":")
    if kind == "transformers" and rest:
        return _of_transformers(rest, text)
    if resolved := resolve_name("tokenizers", text):
        return resolved
    raise InputError(
        f"No tokenizer is known for {text!r}. A method that marks tokens needs a model such as "
        "transformers:MODEL."
    )


def resolve_backend(text: str) -> Resolved:
    """The registered backend of a specification, and its arguments.

    Raises:
        InputError: no backend fits.
    """
    kind, _, rest = text.partition(":")
    if text in CATALOGUE:
        card = CATALOGUE[text].card
        if not isinstance(card, GeneratorCard):
            raise InputError(f"{text!r} is a {CATALOGUE[text].role}, not a language model.")
        return Resolved(
            "llamacpp", lambda store: {"file": store.ensure(text) / card.file, "name": text}
        )
    if kind == "openai":
        model, url = model_and_url(rest)
        return Resolved("openai", lambda store: {"base_url": url, "model": model})
    if kind == "transformers" and rest:
        return _of_transformers(rest, text)
    file = Path(text).expanduser()
    if file.suffix == ".gguf":
        return Resolved("llamacpp", lambda store: {"file": file, "name": text})
    if resolved := resolve_name("backends", text):
        return resolved
    models = [name for name, model in CATALOGUE.items() if model.role == "generator"]
    installed = [n for n in registry.names("backends") if n not in registry.TABLES["backends"]]
    raise InputError(
        f"There is no language model {text!r}. Name one of {', '.join([*models, *installed])}, a "
        ".gguf file, openai:MODEL@URL or transformers:MODEL."
    )


def _of_transformers(model: str, text: str) -> Resolved:
    card = CATALOGUE[model].card if model in CATALOGUE else None
    path = Path(model).expanduser()
    if card is None and path.exists() and not path.is_absolute():
        # A key records the name, and may be used from other folders.
        model = str(path.absolute())
        text = f"transformers:{model}"

    def arguments(store: ModelStore) -> dict[str, Any]:
        source = store.ensure(model) / card.file if isinstance(card, GeneratorCard) else model
        return {"model": source, "name": text}

    libraries = ("gguf",) if card or model.endswith(".gguf") else ()
    return Resolved("transformers", arguments, libraries)
