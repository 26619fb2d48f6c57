"""Calls of tools that come in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hammingmark.backends.tool_calls import CallCollector, calls_in


def collected(*pieces: dict[str, Any]) -> dict[str, Any]:
    collector = CallCollector()
    for piece in pieces:
        collector.add(piece)
    calls = collector.calls("tool_calls")
    assert calls is not None
    fields: dict[str, Any] = json.loads(calls.fields)
    return fields


def piece(arguments: Any, **named: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": named.pop("name")} if "name" in named else {})}
    return {"tool_calls": [{"function": function, **named}]}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": name, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    "pieces",
    [
        [
            piece("", index=0, id="a", name="a"),
            piece("{}", index=0),
            piece('{"x"', index=1, id="b", name="b"),
            piece(": 1}", index=1),
        ],
        # with the same index for all, with names that come again, or with none
        [piece("{}", index=0, id="a", name="a"), piece('{"x": 1}', index=0, id="b", name="b")],
        [
            piece("{", index=0, id="a", name="a"),
            piece("}", index=0, id="a", name="a"),
            piece('{"x": 1}', index=1, id="b", name="b"),
        ],
        [{"tool_calls": [call("a", "{}"), call("b", '{"x": 1}')]}],
        [piece({}, index=0, id="a", name="a"), piece({"x": 1}, index=1, id="b", name="b")],
    ],
)
def test_pieces_are_joined(pieces: list[dict[str, Any]]) -> None:
    wanted = [call("a", "{}"), call("b", '{"x": 1}')]
    assert collected(*pieces) == {"tool_calls": wanted}


def test_the_older_form_is_joined_as_well() -> None:
    parts = [{"function_call": {"name": "a", "arguments": ""}}]
    parts += [{"function_call": {"arguments": part}} for part in ("{", "}")]
    assert collected(*parts) == {"function_call": {"name": "a", "arguments": "{}"}}


@pytest.mark.parametrize("odd", [5, "x", {}, [5], [None], [{"index": "x"}], [{"function": 5}]])
def test_what_is_no_call_is_no_fault(odd: Any) -> None:
    collected({"tool_calls": odd, "function_call": odd})
    assert calls_in({"content": "It.", "tool_calls": None}) == {}
    assert CallCollector().calls("stop") is None
