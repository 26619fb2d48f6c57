"""One rule for how a chat goes on."""

from __future__ import annotations

import pytest

from hammingmark.backends.base import assistant_turn, messages_of
from hammingmark.records import Message, Prompt

USER = Message("user", "Tell me.")
BEGUN = Message("assistant", "Well, ")


@pytest.mark.parametrize(
    ("messages", "written", "begun"),
    [
        ((USER,), "", ""),
        ((USER,), "Once.", "Once."),
        ((USER, BEGUN), "", "Well, "),
        ((USER, BEGUN), "once. ", "Well, once. "),
        ((USER, Message("assistant", "")), "", ""),
    ],
)
def test_the_assistants_turn(messages: tuple[Message, ...], written: str, begun: str) -> None:
    """White space and all: what was written is what is continued."""
    prompt = Prompt(messages=messages)
    assert assistant_turn(prompt, written) == ((USER,), begun)
    turns = messages_of(prompt, written)
    assert turns[0] == {"role": "user", "content": "Tell me."}
    assert turns[1:] == ([{"role": "assistant", "content": begun}] if begun else [])


def test_only_the_last_message_is_continued() -> None:
    prompt = Prompt(messages=(USER, BEGUN, USER))
    assert assistant_turn(prompt, "Yes.") == ((USER, BEGUN, USER), "Yes.")
