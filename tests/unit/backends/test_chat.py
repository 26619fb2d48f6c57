"""How a chat is continued."""

from __future__ import annotations

import pytest

from hammingmark.backends.base import assistant_turn, messages_of
from hammingmark.records import Message, Prompt

USER = Message("user", "Tell me.")
BEGUN = Message("assistant", "Well, ")


@pytest.mark.parametrize(
    ("messages", "written", "start"),
    [
        ((USER,), "", ""),
        ((USER,), "Once.", "Once."),
        ((USER, BEGUN), "", "Well, "),
        ((USER, BEGUN), "once. ", "Well, once. "),
        ((USER, Message("assistant", "")), "", ""),
    ],
)
def test_the_assistants_turn(messages: tuple[Message, ...], written: str, start: str) -> None:
    """The written text is continued exactly, including white space."""
    prompt = Prompt(messages=messages)
    assert assistant_turn(prompt, written) == ((USER,), start)
    turns = messages_of(prompt, written)
    assert turns[0] == {"role": "user", "content": "Tell me."}
    assert turns[1:] == ([{"role": "assistant", "content": start}] if start else [])


def test_only_the_last_message_is_continued() -> None:
    prompt = Prompt(messages=(USER, BEGUN, USER))
    assert assistant_turn(prompt, "Yes.") == ((USER, BEGUN, USER), "Yes.")
