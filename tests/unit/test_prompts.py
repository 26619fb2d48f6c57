"""What may be asked: texts and chats, checked once."""

from __future__ import annotations

import pytest
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.prompts import as_prompt
from hammingmark.records import Message, Prompt


def test_a_text_is_a_prompt() -> None:
    assert as_prompt("It rained. \n") == Prompt("It rained.")
    assert as_prompt(Prompt("It rained.")) == Prompt("It rained.")


def test_messages_are_a_chat() -> None:
    wanted = Prompt(messages=(Message("system", "Be brief."), Message("user", "Why?")))
    rows = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    assert as_prompt(rows) == as_prompt(tuple(rows)) == as_prompt(wanted) == wanted
    assert as_prompt(list(wanted.messages)) == wanted
    assert as_prompt([{"role": "developer", "content": "Be brief."}, rows[1]]) == wanted


def test_content_may_be_a_list_of_text_parts() -> None:
    parts = [{"type": "text", "text": "Why is "}, {"type": "text", "text": "it blue?"}]
    assert as_prompt([{"role": "user", "content": parts}]).messages[0].content == "Why is it blue?"
    assert as_prompt([{"role": "user", "content": ["Why?"]}]).messages[0].content == "Why?"


@pytest.mark.parametrize(
    ("given", "datum"),
    [
        ("", "chat.json"),
        ("  \n", "chat.json"),
        (None, "role"),
        (5, "int"),
        (b"bytes", "bytes"),
        ({"role": "user", "content": "x"}, "dict"),
        ([], "message"),
        (["text"], "role"),
        ([{"role": "user"}], "role"),
        ([{"content": "x"}], "role"),
        ([{"role": "oracle", "content": "x"}], "'oracle'"),
        ([{"role": None, "content": "x"}], "developer"),
        ([{"role": "user", "content": None}], "content"),
        ([{"role": "user", "content": 3}], "content"),
        ([{"role": "user", "content": []}], "content"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}], "text"),
        ([{"role": "user", "content": [{"type": "text", "text": None}]}], "text"),
        (Prompt(messages=(Message("oracle", "x"),)), "'oracle'"),
    ],
)
def test_anything_else_is_one_sentence(given: object, datum: str) -> None:
    with raises_naming(InputError, "chat.json", datum):
        as_prompt(given, where="chat.json")
