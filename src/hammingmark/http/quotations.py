"""Messages of servers without what they quote of a request, so that they can be logged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(r"\\[nrt]")  # of text that is quoted as JSON
_RUN = 3  # words; shorter runs that messages and requests share are chance
_NAMES = frozenset({"model", "role", "type", "name"})  # fields whose values are not texts


def without_quotations(message: str, body: Any) -> str:
    """A server's message with ``[...]`` in the place of words that it quotes of a request.

    Args:
        message: the message.
        body: the request, as JSON. Its texts are not in the result: neither three successive words
            of them nor the whole of a shorter text.
    """
    message = _ESCAPE.sub(" ", message)
    matches = list(_WORD.finditer(message))
    words = [match.group().lower() for match in matches]
    is_quoted = [False] * len(words)
    for text in _texts(body):
        text_words = _WORD.findall(text.lower())
        size, joined = min(_RUN, len(text_words)), f" {' '.join(text_words)}"
        for begin in range(len(words) - size + 1 if size else 0):
            # The last word of a shortened message may be part of a word.
            if f" {' '.join(words[begin : begin + size])}" in joined:
                is_quoted[begin : begin + size] = [True] * size
    parts, end = [], 0
    for index, match in enumerate(matches):
        if is_quoted[index]:
            if not (index and is_quoted[index - 1]):
                parts += [message[end : match.start()], "[...]"]
            end = match.end()
    return "".join([*parts, message[end:]])


def _texts(body: Any) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif isinstance(body, Mapping):
        for name, value in body.items():
            if name not in _NAMES:
                yield from _texts(value)
    elif isinstance(body, list | tuple):
        for value in body:
            yield from _texts(value)
