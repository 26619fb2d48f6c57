"""What is sent on must be JSON to others, too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.errors import raises_naming

from hammingmark.server.plain_json import MAX_DEPTH, check_json


def nested(depth: int) -> Any:
    made: Any = []
    for level in range(depth - 1):
        made = [made] if level % 2 else {"x": made}
    return made


def test_what_json_has_is_taken() -> None:
    check_json({"a": [1, -0.5, None, True, "é\U0001f600"], "b": {}})
    check_json(nested(MAX_DEPTH))
    check_json([5] * 1000)
    check_json("text")


@pytest.mark.parametrize(
    "data",
    [float("nan"), [float("inf")], {"x": "\ud800"}, {"\udfff": 1}, b"{}", {"x": {1}}],
)
def test_what_json_has_not_is_refused(data: Any) -> None:
    with raises_naming(ValueError, "JSON"):
        check_json(data)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 950, 100_000])
def test_what_is_nested_too_deep_is_refused(depth: int) -> None:
    deep = nested(depth)
    with raises_naming(ValueError, MAX_DEPTH):
        check_json(deep)
    while deep:  # taken apart, since Python would follow it down to its end
        (deep,) = deep.values() if isinstance(deep, dict) else deep


def test_what_is_taken_can_be_written() -> None:
    assert json.loads(json.dumps(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
