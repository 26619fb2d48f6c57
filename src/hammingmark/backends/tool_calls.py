"""Calls of tools, from the pieces in which a server streams them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hammingmark.records import ToolCalls

FIELDS = ("tool_calls", "function_call")
"""Fields of a message or a delta that call tools; the second is the older one."""


def calls_in(message: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a message or a delta that call tools; empty if it calls none."""
    return {name: message[name] for name in FIELDS if message.get(name)}


class CallCollector:
    """Joins the pieces of calls.

    Attributes:
        tokens: the number of pieces, each a token where the server sends tokens one by one.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self._calls: list[dict[str, Any]] = []
        self._places: dict[Any, int] = {}  # of each index of the server in the list
        self._function: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self.tokens)

    def add(self, fields: Mapping[str, Any]) -> None:
        """Add one piece, as of `calls_in`."""
        self.tokens += 1
        pieces = fields.get("tool_calls")
        for place, piece in enumerate(pieces if isinstance(pieces, list) else ()):
            if isinstance(piece, dict):
                _join(self._call(piece, place), piece)
        if isinstance(function := fields.get("function_call"), dict):
            _join(self._function, function)

    def calls(self, reason: str) -> ToolCalls | None:
        """All calls; None if there are none.

        Args:
            reason: OpenAI's ``finish_reason``.
        """
        if not self.tokens:
            return None
        fields: dict[str, Any] = {}
        if self._calls:
            fields["tool_calls"] = self._calls
        if self._function:
            fields["function_call"] = self._function
        return ToolCalls(json.dumps(fields), self.tokens, reason)

    def _call(self, piece: Mapping[str, Any], place: int) -> dict[str, Any]:
        """The call that a piece belongs to."""
        index = piece.get("index", place)
        index = index if isinstance(index, int) else place
        at = self._places.get(index)
        # Some servers give all calls the same index.
        if at is None or piece.get("id") not in (None, "", self._calls[at].get("id")):
            at = self._places[index] = len(self._calls)
            self._calls.append({})
        return self._calls[at]


def _join(call: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add a piece to a call: arguments are appended, everything else is set once."""
    for name, value in piece.items():
        if name == "function" and isinstance(value, dict):
            _join(call.setdefault("function", {}), value)
        elif name == "arguments" and value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            call["arguments"] = call.get("arguments", "") + text
        elif name != "index" and call.get(name) in (None, ""):
            call[name] = value
