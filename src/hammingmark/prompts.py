"""Prompts: conversion from what callers pass, and validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hammingmark.errors import InputError
from hammingmark.records import Message, Prompt

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""The roles of a chat and their names for models; OpenAI's newer models say developer."""

PromptInput = Prompt | str | Sequence[Message | Mapping[str, Any]]
"""A prompt as a caller passes it: a text, or a chat."""

CHAT = 'a list like [{"role": "user", "content": "…"}]'
"""An example of a chat, for errors and help."""


def as_prompt(value: object, *, where: str = "The prompt") -> Prompt:
    """A valid prompt from a text, the messages of a chat, or a prompt.

    Args:
        value: a text to continue; or messages, each a `Message` or a mapping with ``role`` and
            ``content``, where content is a text or a list of text parts, as OpenAI's clients
            send it.
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
        value = {"role": value.role, "content": value.content}
    if not isinstance(value, Mapping) or not {"role", "content"} <= value.keys():
        raise InputError(f"{where} is not a chat; it must be {CHAT}.")
    role = value["role"]
    if not isinstance(role, str) or role not in ROLES:
        raise InputError(
            f"{where} has a message with the role {role!r:.40}. Valid roles are {', '.join(ROLES)}."
        )
    return Message(ROLES[role], _as_content(value["content"], where=where))


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
