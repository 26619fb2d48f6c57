"""The response object of the Responses API, from the answer of a chat."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hammingmark.server.responses.schema import ResponsesRequest

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reasons of chats for answers that are not complete, and the names of the same here."""


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What all events and the response of one request have in common.

    Attributes:
        request: the request.
        id: the id of the HTTP request, from which the ids of response and items are made.
        created: seconds since 1970.
    """

    request: ResponsesRequest
    id: str
    created: int = field(default_factory=lambda: int(time.time()))

    def item_id(self, prefix: str, index: int) -> str:
        """The id of an item of the output, by its place."""
        return f"{prefix}_{self.id}{f'_{index}' if index else ''}"

    def response(
        self,
        status: str,
        *,
        model: str,
        output: Sequence[Mapping[str, Any]] = (),
        usage: Any = None,
        **further: Any,
    ) -> dict[str, Any]:
        """The response object.

        Args:
            status: ``in_progress``, ``completed``, ``incomplete`` or ``failed``.
            model: the name of the model.
            output: the items.
            usage: the usage of the chat, if it is known.
            further: further fields.
        """
        request = self.request
        text = {"format": {"type": "text"}, **(request.text or {})}
        return {
            "id": f"resp_{self.id}",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "model": model,
            "output": list(output),
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None, **(request.reasoning or {})},
            "store": False,
            "temperature": request.temperature,
            "text": text,
            "tool_choice": request.tool_choice or "auto",
            "tools": request.tools or [],
            "top_p": request.top_p,
            "truncation": "disabled",
            "usage": usage_of(usage),
            **further,
        }


def response_of(answer: Mapping[str, Any], head: ResponseHead) -> dict[str, Any]:
    """The response object for the answer of a chat.

    Args:
        answer: OpenAI's ``chat.completion``.
        head: what the response says of its request.
    """
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    message = choice.get("message") or {}
    status, details = status_of(choice.get("finish_reason"))
    output: list[dict[str, Any]] = []
    if reasoning := reasoning_of(message):
        output.append(reasoning_item(head.item_id("rs", 0), reasoning))
    text, refusal = message.get("content"), message.get("refusal")
    calls = message.get("tool_calls") or []
    if text or refusal or not calls:
        parts = [text_part(text)] if text or not refusal else []
        parts += [{"type": "refusal", "refusal": refusal}] if refusal else []
        output.append(message_item(head.item_id("msg", len(output)), parts, status=status))
    for call in calls:
        output.append(call_item(head.item_id("fc", len(output)), call, status="completed"))
    return head.response(
        status,
        model=str(answer.get("model") or head.request.model or ""),
        output=output,
        usage=answer.get("usage"),
        incomplete_details=details,
        watermark=answer.get("watermark"),
    )


def status_of(finish_reason: Any) -> tuple[str, dict[str, str] | None]:
    """The status of a response and its ``incomplete_details``."""
    reason = _INCOMPLETE.get(finish_reason) if isinstance(finish_reason, str) else None
    return ("incomplete", {"reason": reason}) if reason else ("completed", None)


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The reasoning in a message or a delta of a chat, under either of its names."""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return reasoning if isinstance(reasoning, str) else ""


def text_part(text: str | None) -> dict[str, Any]:
    """The part of a message with its text."""
    return {"type": "output_text", "text": text or "", "annotations": [], "logprobs": []}


def message_item(
    name: str, parts: Sequence[Mapping[str, Any]], *, status: str = "in_progress"
) -> dict[str, Any]:
    """A message of the output."""
    return {
        "id": name,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": list(parts),
    }


def reasoning_item(name: str, text: str) -> dict[str, Any]:
    """The reasoning of the model in the output."""
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"id": name, "type": "reasoning", "summary": [], "content": content}


def call_item(name: str, call: Any, *, status: str = "in_progress") -> dict[str, Any]:
    """A call of a function in the output, from that of a chat."""
    call = call if isinstance(call, dict) else {}
    function = call.get("function") or {}
    return {
        "id": name,
        "type": "function_call",
        "status": status,
        "call_id": call.get("id") or name,
        "name": function.get("name") or "",
        "arguments": function.get("arguments") or "",
    }


def usage_of(usage: Any) -> dict[str, Any] | None:
    """The usage, from that of a chat; None if it has none."""
    if not isinstance(usage, dict):
        return None
    prompt, answer = (
        usage.get(name) if isinstance(usage.get(name), int) else 0
        for name in ("prompt_tokens", "completion_tokens")
    )
    content: dict[str, Any] = {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}
        | _numbers(usage.get("prompt_tokens_details")),
        "output_tokens": answer,
        "output_tokens_details": {"reasoning_tokens": 0}
        | _numbers(usage.get("completion_tokens_details")),
        "total_tokens": (prompt or 0) + (answer or 0),
    }
    if usage.get("prompt_tokens_estimated"):
        content["input_tokens_estimated"] = True
    return content


def _numbers(details: Any) -> dict[str, int]:
    pairs = details.items() if isinstance(details, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, int)}
