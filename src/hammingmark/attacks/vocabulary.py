"""Which tokens of a model's vocabulary are words by themselves."""

from __future__ import annotations

from typing import Any

_PIECE = "##"  # WordPiece marks what continues a word
_STARTS = ("Ġ", "▁")  # byte-level BPE and SentencePiece mark what begins one


def whole_words(tokenizer: Any) -> list[str | None]:
    """For each token the word in small letters that it stands for, None if it is something else.

    A vocabulary that marks neither beginnings nor continuations is one of whole words.
    """
    tokens: list[str] = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    special = set(tokenizer.all_special_ids)
    start = next((mark for mark in _STARTS if any(t.startswith(mark) for t in tokens)), "")
    return [
        None if number in special else _word(token, start) for number, token in enumerate(tokens)
    ]


def _word(token: str, start: str) -> str | None:
    if not token.startswith(start) or token.startswith(_PIECE):
        return None
    word = token[len(start) :]
    # Bytes of a longer character look like letters in byte-level vocabularies: only ASCII is sure.
    return word if len(word) > 1 and word.isascii() and word.isalpha() and word.islower() else None
