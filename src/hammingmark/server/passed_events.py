"""Streams that pass through: their events as they are, and one word on the mark."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from hammingmark.server.marking.answers import event
from hammingmark.server.plain_json import check_json
from hammingmark.server.problems import Problem

_END_OF_EVENT = re.compile(rb"\r?\n\r?\n")
_DATA = re.compile(rb"^data: ?(.*)$", re.MULTILINE)
_LONGEST_END = 3  # bytes of the end of an event that may have come before the rest of it
_LARGEST = 16 << 20  # bytes of one event
_HEAD = ("id", "object", "created", "model")


async def told_events(
    chunks: AsyncIterator[bytes], mark: Mapping[str, Any]
) -> AsyncIterator[bytes]:
    """The events of a stream; those that end an answer also have the field ``watermark``.

    Where none ends an answer, an event of its own has the field, before ``[DONE]``. What others say
    in that field is left out.

    Args:
        chunks: the stream as it comes.
        mark: the field.

    Raises:
        Problem: an event has no end, or the stream breaks off.
    """
    marking = _Marking(mark)
    async for raw in _events(chunks):
        for each in marking.passed(raw):
            yield each
    if not marking.told:
        yield marking.own_event()
        raise broken_off()


class _Marking:
    """Says in a stream that it is not marked."""

    def __init__(self, mark: Mapping[str, Any]) -> None:
        self.told = False
        self._mark = dict(mark)
        self._last: dict[str, Any] = {}

    def passed(self, raw: bytes) -> list[bytes]:
        """What to send for one event."""
        found = _DATA.findall(raw)
        if len(found) != 1:
            return [raw]
        if found[0].strip() == b"[DONE]":
            before = [] if self.told else [self.own_event()]
            self.told = True
            return [*before, raw]
        with suppress(ValueError, RecursionError):
            data = json.loads(found[0])
            check_json(data)
            if not isinstance(data, dict):
                return [raw]
            self._last = own = without_marks(data)
            if _ends(own):
                self.told = True
                own = {**own, "watermark": self._mark}
            if own != data:
                more = json.dumps(own, ensure_ascii=False)
                return [raw.replace(found[0], more.encode(), 1)]
        return [raw]

    def own_event(self) -> bytes:
        """An event that says nothing else."""
        head = {name: self._last[name] for name in _HEAD if name in self._last}
        return event({**head, "choices": [], "watermark": self._mark})


def without_marks(data: dict[str, Any]) -> dict[str, Any]:
    """An answer or a chunk without what another service says of its mark."""
    kept = {name: value for name, value in data.items() if name != "watermark"}
    if isinstance(kept.get("choices"), list):
        kept["choices"] = [
            {name: value for name, value in each.items() if name != "watermark"}
            if isinstance(each, dict)
            else each
            for each in kept["choices"]
        ]
    return kept


def _ends(data: Mapping[str, Any]) -> bool:
    """Whether an answer ends with this."""
    choices = data.get("choices")
    return isinstance(choices, list) and any(
        isinstance(each, dict) and each.get("finish_reason") is not None for each in choices
    )


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The stream cut into events, each with its end.

    Raises:
        Problem: one is too large, or the last is not whole.
    """
    left = bytearray()
    async for chunk in chunks:
        seen = max(0, len(left) - _LONGEST_END)  # nothing before it can be an end
        left += chunk
        begin = 0
        for found in _END_OF_EVENT.finditer(left, seen):
            yield bytes(left[begin : found.end()])
            begin = found.end()
        del left[:begin]
        if len(left) > _LARGEST:
            raise Problem(502, "The upstream's answer is too large.", kind="upstream_error")
    if left.strip():
        if not _is_whole(bytes(left)):
            raise broken_off()
        yield bytes(left) + b"\n\n"


def _is_whole(raw: bytes) -> bool:
    """Whether an event lacks nothing but its end, which some servers leave out at the last."""
    found = _DATA.findall(raw)
    if len(found) != 1 or found[0].strip() == b"[DONE]":
        return bool(found)
    try:
        json.loads(found[0])
    except (ValueError, RecursionError):
        return False
    return True


def broken_off() -> Problem:
    """What is said of an answer that the upstream did not end."""
    return Problem(502, "The upstream broke off its answer.", kind="upstream_error")
