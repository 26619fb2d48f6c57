"""The tokenizer of a transformers model, for detection without the model.

After the first use it is saved in a file of its own, because reading it from a model's files takes
many times as long and needs the transformers library. The file's SHA-256 is its fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import tokenizers

from hammingmark.errors import InputError
from hammingmark.pretrained import LIBRARIES, read
from hammingmark.registry import require_libraries
from hammingmark.text.characters import well_formed

_REREAD = 4  # tokens decoded again before new ones, which may depend on them
_LONGEST_UNFINISHED = 16  # tokens, where each may end one character and begin another
_UNFINISHED = "\ufffd"  # stands for a part of a character until its other tokens come


class TransformersTokenizer:
    """The tokenizer of a transformers model, loaded by that library.

    Args:
        model: a folder, a hub name, or a GGUF file.
        name: the name by which a user chose it.
    """

    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    extra: ClassVar[str] = "torch"

    def __init__(self, model: str | Path, *, name: str | None = None) -> None:
        require_libraries(self.libraries, part="This tokenizer", extra="torch")
        self.name = name or f"transformers:{model}"
        self._model = model

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that affects tokens."""
        plain = _plain(self.loaded)
        content = plain.to_str() if plain else json.dumps(self.loaded.get_vocab(), sort_keys=True)
        return hashlib.sha256(_as_bytes(self.size, content)).hexdigest()

    @cached_property
    def size(self) -> int:
        """V, the number of logits of the model, or of tokens if the tokenizer has more."""
        logits = int(read("AutoConfig", self._model).get_text_config().vocab_size)
        return max(logits, 1 + max(self.loaded.get_vocab().values(), default=0))

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special tokens at its start and end."""
        tokens: list[int] = self.loaded(
            well_formed(text), add_special_tokens=False, padding=False, truncation=False
        ).input_ids
        return tokens

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text that each token adds; empty for a token in the middle of a character."""
        return _pieces(self.loaded, tokens)

    def save(self, folder: Path) -> None:
        """Save it in a file for `SavedTokenizer`, if the library ``tokenizers`` can read it."""
        file = folder / self.fingerprint
        if file.exists() or (plain := _plain(self.loaded)) is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as draft:
            draft.write(_as_bytes(self.size, plain.to_str()))
        Path(draft.name).replace(file)

    @cached_property
    def loaded(self) -> Any:
        """The tokenizer of the transformers library."""
        return read("AutoTokenizer", self._model)


class SavedTokenizer:
    """A tokenizer from a file that `TransformersTokenizer.save` wrote, without that library.

    Args:
        file: its name is the fingerprint.
        name: the name by which a user chooses it.

    Raises:
        InputError: the file does not match its name.
    """

    def __init__(self, file: Path, *, name: str) -> None:
        self.name = name
        self.fingerprint = file.name
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() != file.name:
            raise InputError(f"The tokenizer in {file} is damaged. Delete the file.")
        size, _, content = data.decode().partition("\n")
        self.size = int(size)
        self._tokenizer = _Decoding(tokenizers.Tokenizer.from_str(content))

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special tokens at its start and end."""
        encoding = self._tokenizer.tokenizer.encode(well_formed(text), add_special_tokens=False)
        return list(encoding.ids)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text that each token adds; empty for a token in the middle of a character."""
        return _pieces(self._tokenizer, tokens)


@dataclass(frozen=True)
class _Decoding:
    """Decodes with the interface of the transformers library."""

    tokenizer: tokenizers.Tokenizer

    def decode(self, tokens: list[int], *, clean_up_tokenization_spaces: bool) -> str:
        assert not clean_up_tokenization_spaces
        return self.tokenizer.decode(tokens, skip_special_tokens=False)


def _plain(loaded: Any) -> tokenizers.Tokenizer | None:
    """A copy that neither truncates nor pads, whatever its model's file says.

    None if it is not a tokenizer of the library ``tokenizers``.
    """
    backend = getattr(loaded, "backend_tokenizer", None)
    if backend is None:
        return None
    plain = tokenizers.Tokenizer.from_str(backend.to_str())
    plain.no_truncation()
    plain.no_padding()
    return plain


def _pieces(tokenizer: Any, tokens: Sequence[int]) -> list[str]:
    pieces: list[str] = []
    decoded = 0
    for count in range(1, len(tokens) + 1):
        first = max(0, decoded - _REREAD)  # `added_text` needs no token before this one
        final = count == len(tokens)
        piece = added_text(tokenizer, tokens[first:count], decoded=decoded - first, final=final)
        pieces.append(piece or "")
        decoded = decoded if piece is None else count
    return pieces


def _as_bytes(size: int, content: str) -> bytes:
    return f"{size}\n{content}".encode()


def added_text(
    tokenizer: Any,
    tokens: Sequence[int],
    *,
    decoded: int,
    context: Sequence[int] = (),
    final: bool = False,
) -> str | None:
    """The text that tokens add after the first ``decoded`` of them; None within a character.

    A replacement character at the end is taken for an unfinished character, unless the tokens are
    ``final`` or there are many of them: a text may contain the replacement character itself.

    The text of a token may depend on the tokens before it, so that a few of these are decoded
    again: from ``tokens``, or from the ``context`` before them. For example, some tokenizers drop
    the space before the first word.
    """
    final = final or len(tokens) - decoded >= _LONGEST_UNFINISHED
    if decoded < _REREAD and context:
        recent = context[-_REREAD:]
        tokens, decoded = [*recent, *tokens], decoded + len(recent)
    first = max(0, decoded - _REREAD)
    before = _decode(tokenizer, tokens[first:decoded]) if decoded else ""
    text = _decode(tokenizer, tokens[first:])
    return None if text.endswith(_UNFINISHED) and not final else text[len(before) :]


def _decode(tokenizer: Any, tokens: Sequence[int]) -> str:
    return str(tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))
