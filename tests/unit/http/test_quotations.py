"""What is left out of a server's message before it is logged."""

from __future__ import annotations

from typing import Any

import pytest

from hammingmark.http.quotations import without_quotations

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "My name is Ann Lee.\nHelp me."}]}


@pytest.mark.parametrize(
    ("message", "body", "logged"),
    [
        ("top_k must be at most 100", CHAT, "top_k must be at most 100"),
        ("Model tiny: the user role is odd", CHAT, "Model tiny: the user role is odd"),
        ("bad input 'my NAME is Ann Lee.' here", CHAT, "bad input '[...].' here"),
        (r'{"input": "Ann Lee.\nHelp me."}', CHAT, '{"input": "[...]."}'),
        ("shortened: my name is An", CHAT, "shortened: [...]"),
        ("no: secret!", {"prompt": "Secret"}, "no: [...]!"),
        ("no: in lists", {"prompt": ["a", "in lists"]}, "no: [...]"),
        ("nothing", {"prompt": ""}, "nothing"),
        ("nothing", None, "nothing"),
        ("", CHAT, ""),
    ],
)
def test_words_of_a_request_are_left_out(message: str, body: Any, logged: str) -> None:
    assert without_quotations(message, body) == logged
