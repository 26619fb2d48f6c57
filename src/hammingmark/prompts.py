"""Prompts: conversion from what callers pass, and validation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from hammingmark.errors import InputError
from hammingmark.records import Message, Prompt

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""The roles of a chat and their names for models; OpenAI's newer models say developer."""

TOOL_ROLES = ("tool", "function")
"""The roles of messages with the result of a call; the second is the older one."""

PromptInput = Prompt | str | Sequence[Message | Mapping[str, Any]]
"""A prompt as a caller passes it: a text, or a chat."""

CHAT = 'a list like [{"role": "user", "content": "…"}]'
"""An example of a chat, for errors and help."""


def as_prompt(value: object, *, where: str = "The prompt") -> Prompt:
    """A valid prompt from a text, the messages of a chat, or a prompt.

    Args:
        value: a text to continue; or messages, each a `Message` or a mapping with ``role`` and
            ``content``, where content is a text or a list of text parts, as OpenAI's clients
            send it. Messages that call tools, and those with the results, are kept as they are.
        where: the name of the value in errors.

    Raises:
        InputError: it is none of these, or empty.
    """
    if isinstance(value, Prompt):
        return as_prompt(value.messages or value.text, where=where)
    if isinstance(value, str):
        if not value.strip():
            raise InputError(f"{where} is empty.")
        return Prompt(value.rstrip())
    if not isinstance(value, Sequence) or isinstance(value, (bytes, bytearray)):
        kind = "missing" if value is None else f"of the type {type(value).__name__}"
        raise InputError(f"{where} is {kind}; it must be a text, or a chat: {CHAT}.")
    if not value:
        raise InputError(f"{where} contains no message.")
    return Prompt(messages=tuple(_as_message(message, where=where) for message in value))


def _as_message(value: object, *, where: str) -> Message:
    if isinstance(value, Message):
        value = message_fields(value)
    if is_about_tools(value):
        return _as_tool_message(value, where=where)
    if not isinstance(value, Mapping) or not {"role", "content"} <= value.keys():
        raise InputError(f"{where} is not a chat; it must be {CHAT}.")
    role = value["role"]
    if not isinstance(role, str) or role not in ROLES:
        raise InputError(
            f"{where} has a message with the role {role!r:.40}. Valid roles are {', '.join(ROLES)}."
        )
    return Message(ROLES[role], _as_content(value["content"], where=where))


def message_fields(message: Message) -> dict[str, Any]:
    """The fields of a message, as in OpenAI's API."""
    further = {name: json.loads(value) for name, value in message.further}
    return {"role": message.role, "content": message.content, **further}


def is_about_tools(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a message of OpenAI's API calls tools, or has the result of a call."""
    if not isinstance(value, Mapping):
        return False
    if value.get("role") == "assistant":
        return bool(value.get("tool_calls") or value.get("function_call"))
    return value.get("role") in TOOL_ROLES


def _as_tool_message(value: Mapping[str, Any], *, where: str) -> Message:
    """A message that calls tools, with or without text, or has the result of a call."""
    content = value.get("content")
    text = _as_content(content, where=where) if content else ""
    # A model gets the content as it came: a text, parts, or null.
    names = sorted(value.keys() - ({"role", "content"} if content == text else {"role"}))
    return Message(value["role"], text, tuple((name, json.dumps(value[name])) for name in names))


def _as_content(value: object, *, where: str) -> str:
    parts: Sequence[Any] = [value] if isinstance(value, str) or value is None else _as_list(value)
    texts = [text for part in parts if isinstance(text := _text_of(part), str)]
    if not texts or len(texts) < len(parts):
        raise InputError(
            f"{where} has a message whose content is not text. It must be a text, or a list of "
            'text parts such as [{"type": "text", "text": "…"}].'
        )
    return "".join(texts)


def _text_of(part: Any) -> Any:
    if isinstance(part, Mapping):
        return part.get("text") if part.get("type") == "text" else None
    return part


def _as_list(value: object) -> Sequence[Any]:
    return value if isinstance(value, Sequence) and not isinstance(value, bytes) else [None]
