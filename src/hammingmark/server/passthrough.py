"""Streams that pass through: their events as they are, and one word on the mark."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from hammingmark.http.sse import Event, EventTooLong, format_event, read_events
from hammingmark.server.api_error import APIError
from hammingmark.server.plain_json import check_json

_HEAD = ("id", "object", "created", "model")


async def annotate_events(
    chunks: AsyncIterator[bytes], mark: Mapping[str, Any]
) -> AsyncIterator[bytes]:
    """The events of a stream; those that end an answer also have the field ``watermark``.

    Where none ends an answer, an event of its own has the field, before ``[DONE]``. What others say
    in that field is left out.

    Args:
        chunks: the stream as it comes.
        mark: the field.

    Raises:
        APIError: an event has no end, or the stream breaks off.
    """
    marking = _EventAnnotator(mark)
    try:
        async for event in read_events(chunks):
            if not event.complete:
                if not _is_whole(event):
                    raise response_interrupted()
                event = Event(event.raw + b"\n\n")
            for each in marking.passed(event):
                yield each
    except EventTooLong:
        raise response_too_large() from None
    if not marking.told:
        yield marking.own_event()
        raise response_interrupted()


class _EventAnnotator:
    """Says in a stream that it is not marked."""

    def __init__(self, mark: Mapping[str, Any]) -> None:
        self.told = False
        self._mark = dict(mark)
        self._last: dict[str, Any] = {}

    def passed(self, event: Event) -> list[bytes]:
        """What to send for one event."""
        if event.is_done:
            before = [] if self.told else [self.own_event()]
            self.told = True
            return [*before, event.raw]
        with suppress(ValueError, RecursionError):
            data = json.loads(event.data or b"")
            check_json(data)
            if not isinstance(data, dict):
                return [event.raw]
            self._last = own = without_watermark(data)
            if _ends(own):
                self.told = True
                own = {**own, "watermark": self._mark}
            if own != data:
                return [event.with_data(json.dumps(own, ensure_ascii=False).encode()).raw]
        return [event.raw]

    def own_event(self) -> bytes:
        """An event that says nothing else."""
        head = {name: self._last[name] for name in _HEAD if name in self._last}
        return format_event({**head, "choices": [], "watermark": self._mark})


def without_watermark(data: dict[str, Any]) -> dict[str, Any]:
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


def _is_whole(event: Event) -> bool:
    """Whether an event lacks nothing but its end, which some servers leave out at the last."""
    if event.data is None or event.is_done:
        return event.is_done
    try:
        json.loads(event.data)
    except (ValueError, RecursionError):
        return False
    return True


def response_too_large() -> APIError:
    """What is said of an answer, or an event, that nobody wants to keep."""
    return APIError(502, "The upstream's answer is too large.", kind="upstream_error")


def response_interrupted() -> APIError:
    """What is said of an answer that the upstream did not end."""
    return APIError(502, "The upstream broke off its answer.", kind="upstream_error")
