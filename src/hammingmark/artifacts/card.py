"""Cards: fitted arrays and where they come from, in one safetensors file."""

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
    """A file of numbers, by default of 16 bits, and all else as its metadata."""
    # In the order of C: the library writes the memory of an array as it lies.
    tensors = {name: each.astype(dtype, order="C") for name, each in arrays.items()}
    # One entry: the library writes several in no fixed order, and the same card is one file.
    content: bytes = save_tensors(tensors, {kind: json.dumps({"format": kind, **about})})
    return content


def read_card(content: bytes, *, kind: str) -> tuple[dict[str, NDArray[np.float32]], Any]:
    """The arrays of a file, and what it says of them.

    Raises:
        ValueError: it is no such card, or a damaged one.
    """
    try:
        tensors = load_tensors(content)
        # The library's reader leaves out what stands beside the tensors.
        size = int.from_bytes(content[:8], "little")
        about = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][kind])
    except (SafetensorError, LookupError, TypeError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(about, dict):
        raise ValueError(kind)
    about.pop("format", None)
    return {name: each.astype(np.float32) for name, each in tensors.items()}, about


def card_content(path: Path, *, what: str) -> bytes:
    """What a file holds, up to what any card has.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise InputError(f"Cannot read the {what} {path}: {error.strerror}.") from None


def shipped_card(folder: str, name: str) -> bytes | None:
    """The content of a card of this name that comes with the package, if there is one."""
    for entry in (resources("hammingmark.artifacts") / folder).iterdir():
        if entry.name == f"{name}{SUFFIX}":
            return entry.read_bytes()
    return None


def content_hash(content: bytes) -> str:
    """By which a key knows a card again: the beginning of its SHA-256, in hex."""
    return hashlib.sha256(content).hexdigest()[:32]
