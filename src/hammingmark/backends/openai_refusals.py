"""What an OpenAI-compatible server does not want of a request.

Servers differ in what they take, and OpenAI's ``code`` and ``param`` are left empty by most of
them. Where a field of the error says what is wrong, it decides; where none does, the server's
sentence is all there is. It is read here and nowhere else, and what is found goes on as data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hammingmark.http.connection import ErrorObject

_CONTINUING = frozenset({"continue_final_message", "add_generation_prompt"})
_FOREIGN = _CONTINUING | {"top_k", "min_p"}  # known to vLLM, SGLang and llama.cpp, not to OpenAI
NEWER = "max_completion_tokens"
"""What OpenAI calls ``max_tokens`` for its later models."""

_TOO_LONG = frozenset({"context_length_exceeded", "exceed_context_size_error"})  # llama.cpp's: last


def fields_to_drop(
    body: Mapping[str, Any], error: ErrorObject, *, kept: frozenset[str] = frozenset()
) -> frozenset[str]:
    """The fields of a refused body to try without; none if that cannot help.

    Those that the server names, else all that OpenAI's API does not have, else ``n``.

    Args:
        body: what was sent.
        error: what the server said.
        kept: fields to be sent or nothing.
    """
    foreign = (_FOREIGN & body.keys()) - kept
    optional = foreign | ({"n", "seed"} & body.keys())
    named = frozenset(name for name in optional if _names(name, error))
    if refuses_n(error):
        named |= {"n"} & body.keys()
    if named & _CONTINUING:
        named |= _CONTINUING
    if _names(NEWER, error) and "max_tokens" in body:
        named |= {"max_tokens"}
    return named or foreign or frozenset({"n"} & body.keys())


def refuses_n(error: ErrorObject) -> bool:
    """Whether a server says that it gives one choice only; some do so with status 500."""
    return _names("n", error) or "completion choice" in error.message


def is_context_overflow(error: ErrorObject) -> bool:
    """Whether a server says that prompt and answer do not fit its context."""
    if error.code in _TOO_LONG or error.kind in _TOO_LONG:
        return True
    pattern = r"context (size|length|window)|n_ctx|maximum context"
    return re.search(pattern, error.message, re.IGNORECASE) is not None


def _names(field: str, error: ErrorObject) -> bool:
    """Whether a server names a field of the request."""
    named = re.search(rf"(?<![\w-]){field}(?![\w-])", error.message)
    return error.param == field or named is not None
