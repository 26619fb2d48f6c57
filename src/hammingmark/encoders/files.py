"""The files of an encoder: its tokenizer, and the hash by which two encoders are told apart."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from hammingmark.errors import EncoderError


def load_tokenizer(folder: Path, *, max_tokens: int) -> Tokenizer:
    """Read ``tokenizer.json``, ignoring the padding and truncation it may ask for.

    Args:
        folder: where the file lies.
        max_tokens: a longer sentence is cut here.

    Raises:
        EncoderError: if the file is absent or no tokenizer.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise EncoderError(
            f"No tokenizer.json in {folder}. Point at the folder that holds it, or fetch the "
            "model again."
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a bare Exception
        raise EncoderError(
            f"The file {path} is no tokenizer: {error}. Fetch the model again."
        ) from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def fingerprint(parts: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of the canonical JSON of ``parts``: sorted keys, no spaces, ASCII."""
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256, in hex, of a file's content.

    Raises:
        EncoderError: if the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise EncoderError(
            f"Cannot read the model file {path}: {error.strerror}. "
            "Fetch the model again, or point at a folder that holds it."
        ) from error
    return digest.hexdigest()


def known_or_hashed(path: Path, hashes: Mapping[str, str]) -> str:
    """The hash the model store has already proved for a file, or else the file's own.

    Args:
        path: the file.
        hashes: file name to SHA-256 in hex.
    """
    known = hashes.get(path.name)
    return known.lower() if known else file_hash(path)
