"""Language models, and their tokenizers, by what a user types."""

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

_shared: SingleFlightCache[Backend] = SingleFlightCache(
    1
)  # the last one is given up before another is loaded
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")  # a key's file may say anything


def load_backend(
    text: str = DEFAULT_GENERATOR,
    *,
    store: ModelStore | None = None,
    width: int | None = None,
    parallel: int | None = None,
    context: int | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Backend:
    """A language model by what a user types.

    Args:
        text: a name of the catalogue, a GGUF file, ``openai:MODEL@URL`` for an endpoint (its key
            is read from OPENAI_API_KEY; without MODEL, the only one that it offers),
            ``transformers:MODEL`` for a name of the catalogue, a folder, a GGUF file or a hub
            name in that library, or ``NAME`` or ``NAME:ARGUMENT`` of an installed package.
        store: where catalogue models are kept.
        width: how many candidates of one text to draw at once; by default what suits the backend.
        parallel: how many of all texts together; likewise.
        context: tokens that a prompt and its continuation may have together; likewise, and at
            most what the model was trained for.
        parameters: what else its constructor takes.
    """
    given = dict(parameters or {})
    for name, value in (("width", width), ("parallel", parallel)):
        if value is not None:
            given[name] = _at_least_one(value)
    if context is not None:
        part = registry.find("backends", resolve_backend(text).name)
        if "context" not in parameters_of(part):
            raise InputError("The context of an endpoint is set where its server runs.")
        given["context"] = context
    backend: Backend = build("backends", text, given, store=store)
    return backend


def shared_backend(text: str) -> Backend:
    """The language model that was loaded last, if it is this one: for calls one after another."""
    return _shared.get(text, lambda: load_backend(text))


def _forget_after_fork() -> None:
    """What a process that forked has loaded is still its own."""
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
    """The tokenizer of a language model by what a user types to get that model.

    Raises:
        InputError: the model tells its tokens to nobody.
    """
    tokenizer: Tokenizer = build("tokenizers", text, parameters, store=store)
    return tokenizer


def tokenizer_of(wanted: TokenizerId) -> Tokenizer:
    """The tokenizer that a key was made for: as it was kept in a file, or out of its model.

    Out of a model it may turn out to be another one; whoever uses it holds it against the key.

    Raises:
        InputError: the model tells its tokens to nobody.
    """
    if _FINGERPRINT.fullmatch(wanted.fingerprint):
        for folder in _tokenizer_folders():
            if (folder / wanted.fingerprint).is_file():
                return SavedTokenizer(folder / wanted.fingerprint, name=wanted.name)
    try:
        tokenizer = load_tokenizer(wanted.name)
        keep_tokenizer(tokenizer)  # reads it
    except HammingMarkError as error:
        raise type(error)(
            f"The tokenizer of the key is not here. {str(error).rstrip('.')}. Or copy the folder "
            f"'tokenizers' from beside the key files where the key was made: the file is to be "
            f"{_tokenizer_folders()[0] / wanted.fingerprint[:64]}"
        ) from None
    return tokenizer


def keep_tokenizer(tokenizer: Tokenizer) -> None:
    """Keep a tokenizer in a file by itself, beside the keys, where that can be done.

    Without it their texts cannot be judged, and a cache may be deleted.
    """
    if isinstance(tokenizer, TransformersTokenizer):
        with suppress(OSError):
            tokenizer.save(_tokenizer_folders()[0])


def _tokenizer_folders() -> tuple[Path, Path]:
    """Where tokenizers are kept now, and where they were before."""
    environment = environment_now()
    return environment.keyring / "tokenizers", environment.cache / "tokenizers"


def resolve_tokenizer(text: str) -> Resolved:
    """The registered tokenizer that a user means, and what it is given.

    Raises:
        InputError: there is none.
    """
    kind, _, rest = text.partition(":")
    if kind == "transformers" and rest:
        return _of_transformers(rest, text)
    if found := resolve_name("tokenizers", text):
        return found
    raise InputError(
        f"No tokenizer is known for {text!r}: a method that marks tokens needs a model like "
        "transformers:MODEL."
    )


def resolve_backend(text: str) -> Resolved:
    """The registered backend that a user means, and what it is given.

    Raises:
        InputError: there is none.
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
    if found := resolve_name("backends", text):
        return found
    models = [name for name, model in CATALOGUE.items() if model.role == "generator"]
    outside = [n for n in registry.names("backends") if n not in registry.ROOMS["backends"]]
    raise InputError(
        f"No language model called {text!r}: name one of {', '.join([*models, *outside])}, a "
        ".gguf file, openai:MODEL@URL or transformers:MODEL."
    )


def _of_transformers(model: str, text: str) -> Resolved:
    card = CATALOGUE[model].card if model in CATALOGUE else None
    here = Path(model).expanduser()
    if card is None and here.exists() and not here.is_absolute():
        # A key remembers the name, and is used from other folders.
        model = str(here.absolute())
        text = f"transformers:{model}"

    def arguments(store: ModelStore) -> dict[str, Any]:
        source = store.ensure(model) / card.file if isinstance(card, GeneratorCard) else model
        return {"model": source, "name": text}

    reader = ("gguf",) if card or model.endswith(".gguf") else ()
    return Resolved("transformers", arguments, reader)


def _at_least_one(count: int) -> int:
    if count < 1:
        raise InputError(f"At least 1 candidate is drawn at once, not {count}.")
    return count
