"""Backends in a ``with`` statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

from hammingmark.records import Message, Prompt

_Self = TypeVar("_Self", bound="Closing")


class Closing(ABC):
    """Something that is closed at the end of a ``with`` statement."""

    @abstractmethod
    def close(self) -> None:
        """Let go of whatever is held."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def assistant_turn(prompt: Prompt, written: str) -> tuple[tuple[Message, ...], str]:
    """The messages before the assistant's turn that is being written, and how that turn begins.

    A chat whose last message is the assistant's is continued within that message; after any other
    message a new turn of the assistant begins. What has been ``written`` belongs to that turn.
    """
    *before, last = prompt.messages
    if last.role == "assistant":
        return tuple(before), last.content + written
    return prompt.messages, written


def messages_of(prompt: Prompt, written: str) -> list[dict[str, str]]:
    """The chat for a server that continues a last message of the assistant's."""
    before, begun = assistant_turn(prompt, written)
    turns = [{"role": each.role, "content": each.content} for each in before]
    return [*turns, {"role": "assistant", "content": begun}] if begun else turns
