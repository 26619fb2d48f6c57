"""How a chat is continued: one rule for every backend."""

from __future__ import annotations

from hammingmark.records import Message, Prompt


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
