"""The typed events of a streamed response, from the chunks of a chat."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from typing import Any

from hammingmark.http.sse import Event, format_event, read_events
from hammingmark.server.passthrough import response_interrupted
from hammingmark.server.responses.response_object import (
    ResponseHead,
    call_item,
    message_item,
    reasoning_item,
    reasoning_of,
    status_of,
    text_part,
)

Events = Iterator[bytes]


async def response_events(chunks: AsyncIterator[bytes], head: ResponseHead) -> AsyncIterator[bytes]:
    """The events of a response.

    A response that fails ends with ``error``, which clients raise, and ``response.failed``.

    Args:
        chunks: the events of a chat, as they are sent.
        head: what the response says of its request.
    """
    writer = _EventWriter(head)
    async for event in read_events(chunks):
        for content in writer.add(_chunk_of(event)):
            yield content
        if writer.has_failed:
            return
    for content in writer.end():
        yield content


def _chunk_of(event: Event) -> dict[str, Any]:
    """The chunk in an event of a chat; empty for a comment, the end, and what is no chunk."""
    with suppress(ValueError, RecursionError):
        chunk = json.loads(event.data or b"")
        return chunk if isinstance(chunk, dict) else {}
    return {}


class _EventWriter:
    """Turns the chunks of a chat into events of a response.

    Attributes:
        has_failed: whether the response has ended with an error.
    """

    def __init__(self, head: ResponseHead) -> None:
        self.has_failed = False
        self._head = head
        self._number = 0  # of the next event
        self._has_begun = False
        self._model = head.request.model or ""
        self._output: list[dict[str, Any]] = []  # the last item may be open
        self._is_open = False
        self._calls: int | None = None  # the chat's index of the open call
        self._finish_reason: str | None = None
        self._usage: Any = None
        self._watermark: Any = None

    def add(self, chunk: Mapping[str, Any]) -> Events:
        """The events for a chunk; none for an empty one."""
        if not chunk:
            return
        if chunk.get("error"):
            yield from self._fail(chunk["error"])
            return
        self._model = str(chunk.get("model") or self._model)
        self._usage = chunk.get("usage") or self._usage
        self._watermark = chunk.get("watermark") or self._watermark
        yield from self._begin()
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or choice.get("index", 0) != 0:
            return
        delta = choice.get("delta")
        if isinstance(delta, dict):
            yield from self._add_delta(delta)
        if isinstance(choice.get("finish_reason"), str):
            self._finish_reason = choice["finish_reason"]

    def end(self) -> Events:
        """The events at the end of the chat."""
        if self._finish_reason is None:
            yield from self._fail(response_interrupted().content["error"])
            return
        if not self._output:
            yield from self._open_message(text_part(""))
        status, details = status_of(self._finish_reason)
        yield from self._close(status)
        response = self._response(status, incomplete_details=details)
        yield self._event(f"response.{status}", response=response)

    def _begin(self) -> Events:
        if not self._has_begun:
            self._has_begun = True
            for name in ("created", "in_progress"):
                yield self._event(f"response.{name}", response=self._response("in_progress"))

    def _add_delta(self, delta: Mapping[str, Any]) -> Events:
        if reasoning := reasoning_of(delta):
            yield from self._add_reasoning(reasoning)
        for name, kind in (("content", "output_text"), ("refusal", "refusal")):
            if isinstance(text := delta.get(name), str) and text:
                yield from self._add_text(kind, text)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                yield from self._add_call(call)

    def _add_reasoning(self, text: str) -> Events:
        if not self._continues("reasoning"):
            yield from self._open(reasoning_item(self._next_id("rs"), ""))
            yield from self._open_part({"type": "reasoning_text", "text": ""})
        yield from self._add_to_part("reasoning_text", "text", text)

    def _add_text(self, kind: str, text: str) -> Events:
        field = "text" if kind == "output_text" else "refusal"
        if not self._continues("message"):
            yield from self._open_message(text_part("") if field == "text" else _refusal())
        elif self._part["type"] != kind:
            yield from self._close_part()
            yield from self._open_part(text_part("") if field == "text" else _refusal())
        yield from self._add_to_part(kind, field, text)

    def _add_call(self, call: Mapping[str, Any]) -> Events:
        index = call.get("index", 0)
        if not (self._continues("function_call") and self._calls == index):
            head = {**call, "function": {**(call.get("function") or {}), "arguments": ""}}
            yield from self._open(call_item(self._next_id("fc"), head))
            self._calls = index
        delta = (call.get("function") or {}).get("arguments")
        if isinstance(delta, str) and delta:
            self._item["arguments"] += delta
            yield self._item_event("response.function_call_arguments.delta", delta=delta)

    @property
    def _item(self) -> dict[str, Any]:
        return self._output[-1]

    @property
    def _part(self) -> dict[str, Any]:
        part: dict[str, Any] = self._item["content"][-1]
        return part

    def _next_id(self, prefix: str) -> str:
        return self._head.item_id(prefix, len(self._output))

    def _continues(self, kind: str) -> bool:
        """Whether the open item is of a kind."""
        return self._is_open and self._item["type"] == kind

    def _open(self, item: dict[str, Any]) -> Events:
        yield from self._close("completed")
        self._output.append(item)
        self._is_open = True
        yield self._event(
            "response.output_item.added", output_index=len(self._output) - 1, item=item
        )

    def _open_message(self, part: dict[str, Any]) -> Events:
        yield from self._open(message_item(self._next_id("msg"), []))
        yield from self._open_part(part)

    def _open_part(self, part: dict[str, Any]) -> Events:
        self._item["content"].append(part)
        yield self._part_event("response.content_part.added", part=part)

    def _add_to_part(self, kind: str, field: str, text: str) -> Events:
        self._part[field] += text
        yield self._part_event(f"response.{kind}.delta", delta=text, **_logprobs(kind))

    def _close_part(self) -> Events:
        part, kind = self._part, self._part["type"]
        field = "refusal" if kind == "refusal" else "text"
        done = {field: part[field], **_logprobs(kind)}
        yield self._part_event(f"response.{kind}.done", **done)
        yield self._part_event("response.content_part.done", part=part)

    def _close(self, status: str) -> Events:
        """Close the open item.

        Args:
            status: whether the item is complete.
        """
        if not self._is_open:
            return
        item = self._item
        if item["type"] == "function_call":
            arguments = {"arguments": item["arguments"], "name": item["name"]}
            yield self._item_event("response.function_call_arguments.done", **arguments)
        else:
            yield from self._close_part()
        if "status" in item:
            item["status"] = status
        self._is_open = False
        yield self._event(
            "response.output_item.done", output_index=len(self._output) - 1, item=item
        )

    def _fail(self, error: Any) -> Events:
        self.has_failed = True
        error = error if isinstance(error, dict) else {"message": str(error)}
        message, code = str(error.get("message", "")), error.get("code") or "server_error"
        yield from self._begin()
        # Clients look for the fields, for the object, or for the event that follows.
        fields = {"code": str(code), "message": message, "param": error.get("param")}
        nested = {"type": "server_error", **fields} | {k: v for k, v in error.items() if v}
        yield self._event("error", **fields, error=nested)
        failed = self._response("failed", error={"code": str(code), "message": message})
        yield self._event("response.failed", response=failed)

    def _response(self, status: str, **further: Any) -> dict[str, Any]:
        is_over = status != "in_progress"
        if is_over and self._watermark is not None:
            further["watermark"] = self._watermark
        return self._head.response(
            status,
            model=self._model,
            output=self._output if is_over else (),
            usage=self._usage if is_over else None,
            **further,
        )

    def _part_event(self, kind: str, **fields: Any) -> bytes:
        return self._item_event(kind, content_index=len(self._item["content"]) - 1, **fields)

    def _item_event(self, kind: str, **fields: Any) -> bytes:
        name = self._item["id"]
        return self._event(kind, item_id=name, output_index=len(self._output) - 1, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        event = {"type": kind, "sequence_number": self._number - 1, **fields}
        return f"event: {kind}\n".encode() + format_event(event)


def _refusal() -> dict[str, Any]:
    return {"type": "refusal", "refusal": ""}


def _logprobs(kind: str) -> dict[str, list[Any]]:
    """The field that clients expect of every event of a text, and of no other."""
    return {"logprobs": []} if kind == "output_text" else {}
