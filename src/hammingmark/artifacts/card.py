"""Cards: fitted arrays and their provenance in one safetensors file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from hammingmark.errors import InputError

SUFFIX = ".safetensors"
_LARGEST = 1 << 27  # bytes
Arrays = Mapping[str, NDArray[Any]]


def write_card(
    arrays: Arrays, about: Mapping[str, Any], *, kind: str, dtype: DTypeLike = np.float16
) -> bytes:
    """A safetensors file: arrays, by default of 16-bit numbers, and everything else as metadata."""
    # In C order, because the library writes the memory of an array as it is.
    tensors = {name: array.astype(dtype, order="C") for name, array in arrays.items()}
    # One entry, because the library writes several in no fixed order, and equal cards must be equal
    # files.
    content: bytes = save_tensors(tensors, {kind: json.dumps({"format": kind, **about})})
    return content


def read_card(content: bytes, *, kind: str) -> tuple[dict[str, NDArray[np.float32]], Any]:
    """The arrays and the metadata of a file.

    Raises:
        ValueError: it is not a card of this kind, or it is damaged.
    """
    try:
        tensors = load_tensors(content)
        # The library's reader does not return the metadata.
        size = int.from_bytes(content[:8], "little")
        about = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][kind])
    except (SafetensorError, LookupError, TypeError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(about, dict):
        raise ValueError(kind)
    about.pop("format", None)
    return {name: array.astype(np.float32) for name, array in tensors.items()}, about


def card_content(path: Path, *, what: str) -> bytes:
    """The content of a file, up to the largest size of a card.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise InputError(f"Cannot read the {what} {path}: {error.strerror}.") from None


def shipped_card(folder: str, name: str) -> bytes | None:
    """The content of the card with this name that the package ships, if any."""
    for entry in (resources("hammingmark.artifacts") / folder).iterdir():
        if entry.name == f"{name}{SUFFIX}":
            return entry.read_bytes()
    return None


def content_hash(content: bytes) -> str:
    """The prefix of the SHA-256, in hex, by which a key identifies a card."""
    return hashlib.sha256(content).hexdigest()[:32]
