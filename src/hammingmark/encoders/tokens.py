"""Tokenizers as files: loaded alike for every encoder that has one."""

from __future__ import annotations

from pathlib import Path

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
