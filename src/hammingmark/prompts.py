"""What a caller gives to be continued or answered, checked once, at the door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hammingmark.errors import InputError
from hammingmark.records import Message, Prompt

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""Who may speak in a chat, and what models call them; OpenAI's newer models say developer."""

PromptInput = Prompt | str | Sequence[Message | Mapping[str, Any]]
"""What may be asked: a text, or a chat."""

CHAT = 'a list like [{"role": "user", "content": "…"}]'
"""What the messages of a chat look like, for errors and help."""


def as_prompt(given: object, *, where: str = "The prompt") -> Prompt:
    """A prompt from a text, from the messages of a chat, or from itself.

    Args:
        given: a text to continue; or messages, each a `Message` or a mapping with ``role`` and
            ``content``, where content is a text or a list of text parts, as OpenAI's clients
            send it.
        where: what to call it in an error.

    Raises:
        InputError: it is none of these, or empty.
    """
    if isinstance(given, Prompt):
        return as_prompt(given.messages or given.text, where=where)
    if isinstance(given, str):
        if not given.strip():
            raise InputError(f"{where} is empty.")
        return Prompt(given.rstrip())
    if not isinstance(given, Sequence) or isinstance(given, (bytes, bytearray)):
        kind = "nothing" if given is None else f"of the type {type(given).__name__}"
        raise InputError(f"{where} is {kind}; it should be a text, or a chat: {CHAT}.")
    if not given:
        raise InputError(f"{where} holds no message.")
    return Prompt(messages=tuple(_as_message(each, where=where) for each in given))


def _as_message(given: object, *, where: str) -> Message:
    if isinstance(given, Message):
        given = {"role": given.role, "content": given.content}
    if not isinstance(given, Mapping) or not {"role", "content"} <= given.keys():
        raise InputError(f"{where} is not a chat: it should be {CHAT}.")
    role = given["role"]
    if not isinstance(role, str) or role not in ROLES:
        known = ", ".join(ROLES)
        raise InputError(f"{where} has a message of the role {role!r:.40}; known are {known}.")
    return Message(ROLES[role], _as_content(given["content"], where=where))


def _as_content(given: object, *, where: str) -> str:
    parts: Sequence[Any] = [given] if isinstance(given, str) or given is None else _list(given)
    texts = [text for part in parts if isinstance(text := _text_of(part), str)]
    if not texts or len(texts) < len(parts):
        raise InputError(
            f"{where} has a message whose content is no text; it should be a text, or a list "
            'of text parts like [{"type": "text", "text": "…"}].'
        )
    return "".join(texts)


def _text_of(part: Any) -> Any:
    if isinstance(part, Mapping):
        return part.get("text") if part.get("type") == "text" else None
    return part


def _list(given: object) -> Sequence[Any]:
    return given if isinstance(given, Sequence) and not isinstance(given, bytes) else [None]
