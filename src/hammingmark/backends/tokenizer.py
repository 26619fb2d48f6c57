"""The tokenizer of a transformers model, which detection needs without the model.

It is kept in a file by itself when it was read once, because getting it out of a model's files
takes many times as long, and the transformers library. The file's SHA-256 is its fingerprint.
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


class TransformersTokenizer:
    """Text to tokens, as a transformers model reads it.

    Args:
        model: a folder, a hub name, or a GGUF file.
        name: what a user typed to get it.
    """

    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    extra: ClassVar[str] = "torch"

    def __init__(self, model: str | Path, *, name: str | None = None) -> None:
        require_libraries(self.libraries, part="This tokenizer", get="hammingmark[torch]")
        self.name = name or f"transformers:{model}"
        self._model = model

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides a token."""
        whole = _whole(self.loaded)
        what = whole.to_str() if whole else json.dumps(self.loaded.get_vocab(), sort_keys=True)
        return hashlib.sha256(_as_bytes(self.size, what)).hexdigest()

    @cached_property
    def size(self) -> int:
        """V, the number of logits of the model, or of tokens where a tokenizer has more."""
        logits = int(read("AutoConfig", self._model).get_text_config().vocab_size)
        return max(logits, 1 + max(self.loaded.get_vocab().values(), default=0))

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without any that only begin or end one."""
        tokens: list[int] = self.loaded(
            _without_surrogates(text), add_special_tokens=False, padding=False, truncation=False
        ).input_ids
        return tokens

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """What each token adds to the text; one in the middle of a character adds nothing."""
        return _pieces(self.loaded, tokens)

    def save(self, folder: Path) -> None:
        """Keep it in a file of its own, for `SavedTokenizer`; one that has no such form is not."""
        file = folder / self.fingerprint
        if file.exists() or (whole := _whole(self.loaded)) is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as fresh:
            fresh.write(_as_bytes(self.size, whole.to_str()))
        Path(fresh.name).replace(file)

    @cached_property
    def loaded(self) -> Any:
        """That of the library."""
        return read("AutoTokenizer", self._model)


class SavedTokenizer:
    """The same from a file that `TransformersTokenizer.save` wrote, without that library.

    Args:
        file: its name is the fingerprint.
        name: what a user types to get it.

    Raises:
        InputError: the file is not what its name says.
    """

    def __init__(self, file: Path, *, name: str) -> None:
        self.name = name
        self.fingerprint = file.name
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() != file.name:
            raise InputError(f"The tokenizer in {file} is damaged. Delete the file.")
        size, _, what = data.decode().partition("\n")
        self.size = int(size)
        self._tokenizer = _Decoding(tokenizers.Tokenizer.from_str(what))

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without any that only begin or end one."""
        whole = _without_surrogates(text)
        return list(self._tokenizer.tokenizer.encode(whole, add_special_tokens=False).ids)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """What each token adds to the text; one in the middle of a character adds nothing."""
        return _pieces(self._tokenizer, tokens)


@dataclass(frozen=True)
class _Decoding:
    """Decodes as the transformers library does."""

    tokenizer: tokenizers.Tokenizer

    def decode(self, tokens: list[int], *, clean_up_tokenization_spaces: bool) -> str:
        assert not clean_up_tokenization_spaces
        return self.tokenizer.decode(tokens, skip_special_tokens=False)


def _whole(loaded: Any) -> tokenizers.Tokenizer | None:
    """A tokenizer that cuts nothing off and adds nothing, whatever its model's file says.

    None if it is none of the library ``tokenizers``.
    """
    backend = getattr(loaded, "backend_tokenizer", None)
    if backend is None:
        return None
    whole = tokenizers.Tokenizer.from_str(backend.to_str())
    whole.no_truncation()
    whole.no_padding()
    return whole


def _without_surrogates(text: str) -> str:
    """A text that can be written as UTF-8: half of a pair becomes the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _pieces(tokenizer: Any, tokens: Sequence[int]) -> list[str]:
    found: list[str] = []
    told = 0
    for count in range(1, len(tokens) + 1):
        first = max(0, told - _AGAIN)  # what stands before is not looked at
        ends = count == len(tokens)
        piece = added_text(tokenizer, tokens[first:count], told=told - first, ends=ends)
        found.append(piece or "")
        told = told if piece is None else count
    return found


def _as_bytes(size: int, what: str) -> bytes:
    return f"{size}\n{what}".encode()


def added_text(
    tokenizer: Any,
    tokens: Sequence[int],
    *,
    told: int,
    behind: Sequence[int] = (),
    ends: bool = False,
) -> str | None:
    """The text that tokens add to the first ``told`` of them; None in the middle of a character.

    What is still unfinished after many tokens, or where the text ``ends``, is no character to
    wait for: a text may hold the replacement character itself.

    A token's text may depend on the tokens before it, so that a few of them are read again: of
    these, or of those that they stand ``behind``. Some tokenizers leave out the space of a word
    that nothing stands before.
    """
    ends = ends or len(tokens) - told >= _LONGEST
    if told < _AGAIN and behind:
        some = behind[-_AGAIN:]
        tokens, told = [*some, *tokens], told + len(some)
    first = max(0, told - _AGAIN)
    before = _decode(tokenizer, tokens[first:told]) if told else ""
    text = _decode(tokenizer, tokens[first:])
    return None if text.endswith(_UNFINISHED) and not ends else text[len(before) :]


def _decode(tokenizer: Any, tokens: Sequence[int]) -> str:
    return str(tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))


_AGAIN = 4
_LONGEST = 16  # tokens, where each may end one character and begin another
_UNFINISHED = "\ufffd"  # half of a character, until its other tokens come
