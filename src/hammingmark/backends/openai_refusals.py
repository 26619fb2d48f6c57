"""Why an OpenAI-compatible server refuses a request.

Servers accept different fields, and most leave OpenAI's ``code`` and ``param`` empty. If a field of
the error names the reason, that field decides; otherwise the server's message is the only evidence.
No other module reads such messages; the reason is passed on as data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hammingmark.http.connection import ErrorObject

_CONTINUATION = frozenset({"continue_final_message", "add_generation_prompt"})
_FOREIGN = _CONTINUATION | {"top_k", "min_p"}  # known to vLLM, SGLang and llama.cpp, not to OpenAI
NEWER = "max_completion_tokens"
"""OpenAI's name of ``max_tokens`` for its later models."""

_TOO_LONG = frozenset(
    {"context_length_exceeded", "exceed_context_size_error"}
)  # the latter is llama.cpp's


def fields_to_drop(
    body: Mapping[str, Any], error: ErrorObject, *, required: frozenset[str] = frozenset()
) -> frozenset[str]:
    """The fields of a refused body to leave out in the next attempt; none if that cannot help.

    These are the fields that the server names; if it names none, all those outside OpenAI's API;
    if there are none, ``n``.

    Args:
        body: the body that was sent.
        error: the server's error.
        required: fields that may not be left out.
    """
    foreign = (_FOREIGN & body.keys()) - required
    optional = foreign | ({"n", "seed"} & body.keys())
    named = frozenset(name for name in optional if _names(name, error))
    if refuses_n(error):
        named |= {"n"} & body.keys()
    if named & _CONTINUATION:
        named |= _CONTINUATION
    if _names(NEWER, error) and "max_tokens" in body:
        named |= {"max_tokens"}
    return named or foreign or frozenset({"n"} & body.keys())


def refuses_n(error: ErrorObject) -> bool:
    """Whether the server says that it returns only one choice; some do so with status 500."""
    return _names("n", error) or "completion choice" in error.message


def is_context_overflow(error: ErrorObject) -> bool:
    """Whether the server says that prompt and answer do not fit its context."""
    if error.code in _TOO_LONG or error.kind in _TOO_LONG:
        return True
    pattern = r"context (size|length|window)|n_ctx|maximum context"
    return re.search(pattern, error.message, re.IGNORECASE) is not None


def _names(field: str, error: ErrorObject) -> bool:
    """Whether the server names a field of the request."""
    match = re.search(rf"(?<![\w-]){field}(?![\w-])", error.message)
    return error.param == field or match is not None
