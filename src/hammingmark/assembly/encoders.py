"""Encoders from their specifications."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hammingmark import registry
from hammingmark.assembly.environment import model_store
from hammingmark.assembly.parts import (
    Resolved,
    build,
    check,
    model_and_url,
    resolve_name,
)
from hammingmark.errors import InputError
from hammingmark.lazy import SingleFlightCache
from hammingmark.models.catalogue import CATALOGUE, DEFAULT_ENCODER
from hammingmark.models.entries import EncoderCard
from hammingmark.models.store import ModelStore
from hammingmark.protocols import Encoder

_cache: SingleFlightCache[Encoder] = SingleFlightCache(4)


def load_encoder(
    text: str = DEFAULT_ENCODER,
    *,
    store: ModelStore | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Encoder:
    """Load an encoder. Encoders of the catalogue are loaded once per process.

    Args:
        text: a name of the catalogue (``minilm``), a folder with a model, ``sbert:NAME`` for
            sentence-transformers, ``openai:MODEL@URL`` for an endpoint (its key is read from
            OPENAI_API_KEY), or ``NAME`` or ``NAME:ARGUMENT`` of an installed package.
        store: where catalogue models are kept.
        parameters: further arguments of its constructor.
    """
    if parameters or text not in CATALOGUE:
        encoder: Encoder = build("encoders", text, parameters, store=store)
        return encoder
    store = store or model_store()
    return _cache.get((text, str(store.root)), lambda: build("encoders", text, store=store))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_cache.renew_after_fork)


def check_encoder(text: str) -> None:
    """Refuse an encoder whose libraries are missing, before its files are downloaded.

    Raises:
        EncoderError: with what to install.
    """
    if text in CATALOGUE or ":" in text:
        check("encoders", text, {})


def resolve_encoder(text: str) -> Resolved:
    """The registered encoder of a specification, and its arguments.

    Raises:
        InputError: no encoder fits.
    """
    if text in CATALOGUE:
        return _of_catalogue(text)
    kind, _, rest = text.partition(":")
    if kind == "openai":
        model, url = model_and_url(rest)
        if not model:
            raise InputError(f"{text!r} should look like openai:MODEL@URL.")
        return Resolved("openai", lambda store: {"base_url": url, "model": model})
    if (folder := Path(text).expanduser()).is_dir():
        runtime = _runtime_of(folder)
        # A key records the name, and may be used from other folders.
        name = str(folder.resolve())
        parameter = "name_or_folder" if runtime == "sbert" else "folder"
        return Resolved(runtime, lambda store: {parameter: name, "name": name})
    if resolved := resolve_name("encoders", text):
        return resolved
    if ":" in text or os.sep in text:
        raise InputError(f"{text!r} is neither a folder nor a kind of encoder.")
    models = [name for name, model in CATALOGUE.items() if model.role == "encoder"]
    installed = [n for n in registry.names("encoders") if n not in registry.TABLES["encoders"]]
    raise InputError(
        f"There is no encoder {text!r}. Name one of {', '.join([*models, *installed])}, a folder, "
        "sbert:NAME or openai:MODEL@URL."
    )


def _of_catalogue(name: str) -> Resolved:
    model = CATALOGUE[name]
    card = model.card
    if not isinstance(card, EncoderCard):
        raise InputError(f"{name!r} is a {model.role}, not an encoder.")

    def arguments(store: ModelStore) -> dict[str, Any]:
        folder = store.ensure(name)
        if card.runtime == "sbert":
            return {"name_or_folder": str(folder), "name": name}
        values: dict[str, Any] = {
            "folder": folder,
            "name": name,
            "prefix": card.prefix,
            "max_tokens": card.max_tokens,
            "hashes": {file.name: file.sha256 for file in model.files},
        }
        if card.runtime == "onnx":
            values |= {"pooling": card.pooling, "dimension": card.dimension}
        return values

    return Resolved(card.runtime, arguments)


def _runtime_of(folder: Path) -> str:
    """The encoder that reads the model in a folder of the user."""
    onnx = ("model.onnx", "model_optimized.onnx", "onnx/model.onnx")
    if any((folder / name).is_file() for name in onnx):
        return "onnx"
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        config = {}
    if isinstance(config, dict) and config.get("model_type") == "model2vec":
        return "static"
    return "sbert"
