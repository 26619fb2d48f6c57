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
_REPORTING = frozenset({"stream_options", "timings_per_token"})
# Known to vLLM, SGLang and llama.cpp, not to OpenAI, or not to older servers.
_FOREIGN = _CONTINUATION | _REPORTING | {"top_k", "min_p"}
CONTINUOUS = "continuous_usage_stats"
"""The field of ``stream_options`` that makes vLLM and SGLang report tokens with every chunk."""

NEWER = "max_completion_tokens"
"""OpenAI's name of ``max_tokens`` for its later models."""

CONTEXT_OVERFLOW = (
    "The prompt with the requested tokens is longer than the model's context length. Shorten the "
    "prompt, or ask for fewer tokens."
)
"""What is said of it, in words by which clients such as LiteLLM recognize it."""

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
    if _names(CONTINUOUS, error) and CONTINUOUS in body.get("stream_options", ()):
        return frozenset({CONTINUOUS})
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


def refused_field(body: Mapping[str, Any], error: ErrorObject) -> str:
    """The field of a refused body that the server names; empty if it names none."""
    field = error.param.partition(".")[0].partition("[")[0]
    if field in body:
        return field
    # Names of one word are also words of ordinary sentences.
    return next((name for name in sorted(body) if "_" in name and _names(name, error)), "")


def reported_error(answer: Any) -> Any:
    """The error in the place of an answer or a chunk, or in one of its choices; None without one.

    vLLM and FastChat send the error itself, OpenRouter one for each choice.
    """
    if not isinstance(answer, Mapping):
        return None
    if answer.get("error"):
        return answer["error"]
    if "error" in (answer.get("object"), answer.get("type")):
        return answer
    choices = answer.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, Mapping) and choice.get("error"):
            return choice["error"]
    return None


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
