"""The tokenizer of a transformers model, which detection needs without the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from hammingmark.libraries import require_libraries
from hammingmark.pretrained import LIBRARIES, read


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
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        what = (
            backend.to_str() if backend else json.dumps(self._tokenizer.get_vocab(), sort_keys=True)
        )
        return hashlib.sha256(f"{self.size}\n{what}".encode()).hexdigest()

    @cached_property
    def size(self) -> int:
        """V, the number of logits of the model."""
        return int(read("AutoConfig", self._model).get_text_config().vocab_size)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without any that only begin or end one."""
        tokens: list[int] = self._tokenizer(text, add_special_tokens=False).input_ids
        return tokens

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """What each token adds to the text; one in the middle of a character adds nothing."""
        found: list[str] = []
        told = 0
        for count in range(1, len(tokens) + 1):
            piece = added_text(self._tokenizer, tokens[:count], told=told)
            found.append(piece or "")
            told = told if piece is None else count
        return found

    @cached_property
    def _tokenizer(self) -> Any:
        return read("AutoTokenizer", self._model)


def added_text(
    tokenizer: Any, tokens: Sequence[int], *, told: int, behind: Sequence[int] = ()
) -> str | None:
    """The text that tokens add to the first ``told`` of them; None in the middle of a character.

    A token's text may depend on the tokens before it, so that a few of them are read again: of
    these, or of those that they stand ``behind``. Some tokenizers leave out the space of a word
    that nothing stands before.
    """
    if told < _AGAIN and behind:
        some = behind[-_AGAIN:]
        tokens, told = [*some, *tokens], told + len(some)
    first = max(0, told - _AGAIN)
    before = _decode(tokenizer, tokens[first:told]) if told else ""
    text = _decode(tokenizer, tokens[first:])
    return None if text.endswith(_UNFINISHED) else text[len(before) :]


def _decode(tokenizer: Any, tokens: Sequence[int]) -> str:
    return str(tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))


_AGAIN = 4
_UNFINISHED = "\ufffd"  # half of a character, until its other tokens come
