"""From a request of the Responses API to the request of a chat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from hammingmark.prompts import ROLES
from hammingmark.server.api_error import APIError
from hammingmark.server.marking.schema import ChatCompletionRequest
from hammingmark.server.responses.schema import ResponsesRequest

_STATELESS = "This service stores no responses; send the whole conversation in 'input'"
_REFUSED = {
    "previous_response_id": f"{_STATELESS}.",
    "conversation": f"{_STATELESS}.",
    "background": "Responses in the background are not supported; use 'stream'.",
    "prompt": "Stored prompts are not supported; send 'instructions' and 'input'.",
    "top_logprobs": "Responses have no log-probabilities; /v1/chat/completions passes them on.",
}
"""Fields that must be empty, and what to do instead."""

_DROPPED = frozenset(
    {
        *_REFUSED, "input", "instructions", "max_output_tokens", "tools", "tool_choice", "text",
        "reasoning", "metadata", "store", "truncation", "include", "stream_options",
        "max_tool_calls", "n",
    }
)  # fmt: skip
"""Fields that a chat does not have, or has with another meaning."""

_LOGPROBS = "message.output_text.logprobs"
_TEXTS = ("input_text", "output_text", "text", "refusal")
_NAMES = {
    "messages": "input", "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
}  # fmt: skip
"""Fields of a chat, and those of the Responses API."""


def as_chat(request: ResponsesRequest) -> ChatCompletionRequest:
    """The request of a chat that asks for the same.

    Raises:
        APIError: the request asks for something that a chat cannot give.
    """
    for name, message in _REFUSED.items():
        if getattr(request, name):
            raise APIError(400, message, param=name, code="unsupported_parameter")
    if _LOGPROBS in (request.include or ()):
        message = _REFUSED["top_logprobs"]
        raise APIError(400, message, param="include", code="unsupported_parameter")
    if request.model_extra and request.model_extra.get("n") not in (None, 1):
        raise APIError(400, "A response is one answer; omit 'n'.", param="n")
    fields = request.model_dump(exclude_unset=True, exclude=set(_DROPPED), exclude_none=True)
    fields["messages"] = _messages(request)
    if request.max_output_tokens is not None:
        fields["max_completion_tokens"] = request.max_output_tokens
    fields |= _tools(request) | _text(request.text or {}) | _reasoning(request.reasoning or {})
    if request.stream:
        fields["stream_options"] = {"include_usage": True}
    try:
        return ChatCompletionRequest.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        param = ".".join(map(str, first["loc"]))
        raise APIError(422, f"{param}: {first['msg']}", param=param or None) from None


def renamed(error: APIError) -> APIError:
    """An error about a chat, with the names of the Responses API."""
    if error.param in _NAMES:
        error.param = _NAMES[error.param]
    return error


def _messages(request: ResponsesRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        return [*messages, {"role": "user", "content": request.input}]
    for item in request.input:
        kind = item.get("type") or "message"
        if kind == "message":
            messages.append(_message(item))
        elif kind == "function_call":
            _add_call(messages, item)
        elif kind == "function_call_output":
            content = _content(item.get("output"))
            call = _string(item, "call_id")
            messages.append({"role": "tool", "tool_call_id": call, "content": content})
        elif kind == "item_reference":
            raise _bad_input(f"{_STATELESS}, and set 'store' to false, so that clients do so.")
        elif kind != "reasoning":  # a chat has no place for earlier reasoning
            raise _bad_input(f"Items of the type {kind!r:.40} are not supported.")
    if all(message["role"] == "system" for message in messages[bool(request.instructions) :]):
        raise _bad_input("It contains no message of a user.")
    return messages


def _message(item: Mapping[str, Any]) -> dict[str, Any]:
    role = item.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise _bad_input(f"{role!r:.40} is no role; valid roles are {', '.join(ROLES)}.")
    return {"role": ROLES[role], "content": _content(item.get("content"))}


def _add_call(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    """Add a call of a function to the message of the assistant that made it."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    function = {name: _string(item, name) for name in ("name", "arguments")}
    call = {"id": _string(item, "call_id"), "type": "function", "function": function}
    messages[-1].setdefault("tool_calls", []).append(call)


def _content(content: Any) -> str | list[dict[str, Any]]:
    """The content of a message: a text, or parts if it has several."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise _bad_input("The content of a message must be a text or a list of parts.")
    parts = [_part(part) for part in content]
    return str(parts[0]["text"]) if len(parts) == 1 and "text" in parts[0] else parts


def _part(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in _TEXTS:
        return {"type": "text", "text": _string(part, "refusal" if kind == "refusal" else "text")}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        return {"type": "image_url", "image_url": _picked(part, url="image_url", detail="detail")}
    if kind == "input_file":
        fields = _picked(part, file_data="file_data", filename="filename", file_id="file_id")
        return {"type": "file", "file": fields}
    if kind == "input_audio":
        return {"type": kind, kind: part.get(kind)}
    raise _bad_input(f"Parts of the type {kind!r:.40} are not supported.")


def _tools(request: ResponsesRequest) -> dict[str, Any]:
    """The fields of a chat about tools."""
    fields: dict[str, Any] = {}
    for tool in request.tools or ():
        if tool.get("type") != "function":
            kind = tool.get("type")
            raise APIError(
                400,
                f"Tools of the type {kind!r:.40} are not supported; this service runs none, and "
                "passes on functions only.",
                param="tools",
                code="unsupported_parameter",
            )
        names = ("name", "description", "parameters", "strict")
        function = _picked(tool, **{name: name for name in names})
        fields.setdefault("tools", []).append({"type": "function", "function": function})
    choice = request.tool_choice
    if isinstance(choice, dict):
        if choice.get("type") != "function":
            message = "'tool_choice' must be a word or name a function."
            raise APIError(400, message, param="tool_choice", code="unsupported_parameter")
        choice = {"type": "function", "function": _picked(choice, name="name")}
    if choice is not None and fields:  # without tools, endpoints refuse it
        fields["tool_choice"] = choice
    return fields


def _text(text: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a chat about the form of the text."""
    fields = _picked(text, verbosity="verbosity")
    form = text.get("format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        names = ("name", "description", "schema", "strict")
        schema = _picked(form, **{name: name for name in names})
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif form:
        fields["response_format"] = form
    return fields


def _reasoning(reasoning: Mapping[str, Any]) -> dict[str, Any]:
    return _picked(reasoning, reasoning_effort="effort")


def _picked(source: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """Fields of an object that are set, by other names."""
    pairs: Iterable[tuple[str, Any]] = ((new, source.get(old)) for new, old in names.items())
    return {name: value for name, value in pairs if value is not None}


def _string(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise _bad_input(f"{name!r} of an item must be a text.")
    return value


def _bad_input(message: str) -> APIError:
    return APIError(400, f"'input' cannot be used: {message}", param="input")
