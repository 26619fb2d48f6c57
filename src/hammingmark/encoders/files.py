"""The files of an encoder: its tokenizer, and hashes that identify the encoder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from hammingmark.errors import EncoderError


def load_tokenizer(folder: Path, *, max_tokens: int) -> Tokenizer:
    """Read ``tokenizer.json``, ignoring its settings for padding and truncation.

    Args:
        folder: contains the file.
        max_tokens: longer sentences are truncated.

    Raises:
        EncoderError: if the file is missing or not a tokenizer.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise EncoderError(
            f"There is no tokenizer.json in {folder}. Give the folder that contains it, or "
            "download the model again."
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a bare Exception
        raise EncoderError(
            f"{path} is not a tokenizer: {error}. Download the model again."
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
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise EncoderError(
            f"Cannot read the model file {path}: {error.strerror}. "
            "Download the model again, or give a folder that contains it."
        ) from error
    return digest.hexdigest()


def known_or_hashed(path: Path, hashes: Mapping[str, str]) -> str:
    """The hash that the model store has verified for a file, or else the hash of its content.

    Args:
        path: the file.
        hashes: file name to SHA-256 in hex.
    """
    sha256 = hashes.get(path.name)
    return sha256.lower() if sha256 else file_hash(path)
