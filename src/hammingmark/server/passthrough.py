"""Pass-through streams: the upstream's events with the field ``watermark``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from hammingmark.http.sse import Event, EventTooLong, format_event, read_events
from hammingmark.server.api_error import APIError
from hammingmark.server.plain_json import check_json
from hammingmark.server.upstream_errors import UpstreamErrors

_HEAD_FIELDS = ("id", "object", "created", "model")


async def annotate_events(
    chunks: AsyncIterator[bytes], watermark: Mapping[str, Any], errors: UpstreamErrors
) -> AsyncIterator[bytes]:
    """The events of a stream, with the field ``watermark`` in those that end an answer.

    If no event ends an answer, a separate event before ``[DONE]`` has the field. The upstream's own
    fields of that name are removed.

    Args:
        chunks: the body of the stream.
        watermark: the field.
        errors: replaces the upstream's errors.

    Raises:
        APIError: an event is incomplete, or the stream is interrupted.
    """
    annotator = _EventAnnotator(watermark, errors)
    async for event in _complete_events(chunks):
        for content in annotator.annotate(event):
            yield content
    if not annotator.is_annotated:
        yield annotator.watermark_event()
        raise response_interrupted()


async def replace_errors(
    chunks: AsyncIterator[bytes], errors: UpstreamErrors
) -> AsyncIterator[bytes]:
    """The events of a stream as they are, but for the upstream's errors.

    Args:
        chunks: the body of the stream.
        errors: replaces the errors.

    Raises:
        APIError: an event is incomplete.
    """
    async for event in _complete_events(chunks):
        error = error_in(event.data or b"", errors)
        yield event.raw if error is None else format_event(error.content)


def error_in(content: bytes, errors: UpstreamErrors) -> APIError | None:
    """The upstream's error in the place of an answer, which may be anything; None without one."""
    if b"error" not in content:
        return None
    try:
        return errors.of_answer(json.loads(content))
    except (ValueError, RecursionError):
        return None


async def _complete_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """The events of a stream; the last one may lack the blank line.

    Raises:
        APIError: an event is incomplete, or too long.
    """
    try:
        async for event in read_events(chunks):
            if event.complete:
                yield event
            elif _lacks_only_end(event):
                yield Event(event.raw + b"\n\n")
            else:
                raise response_interrupted()
    except EventTooLong:
        raise response_too_large() from None


class _EventAnnotator:
    """Adds the field ``watermark`` to the events of a stream.

    Attributes:
        is_annotated: whether an event with the field has been sent.
    """

    def __init__(self, watermark: Mapping[str, Any], errors: UpstreamErrors) -> None:
        self._errors = errors
        self.is_annotated = False
        self._watermark = dict(watermark)
        self._last: dict[str, Any] = {}

    def annotate(self, event: Event) -> list[bytes]:
        """The events to send for one event of the upstream."""
        if event.is_done:
            earlier = [] if self.is_annotated else [self.watermark_event()]
            self.is_annotated = True
            return [*earlier, event.raw]
        with suppress(ValueError, RecursionError):
            data = json.loads(event.data or b"")
            check_json(data)
            if not isinstance(data, dict):
                return [event.raw]
            if (error := self._errors.of_answer(data)) is not None:
                return [format_event(error.content)]
            self._last = content = without_watermark(data)
            if _ends_answer(content):
                self.is_annotated = True
                content = {**content, "watermark": self._watermark}
            if content != data:
                return [event.with_data(json.dumps(content, ensure_ascii=False).encode()).raw]
        return [event.raw]

    def watermark_event(self) -> bytes:
        """An event with the field alone."""
        head = {name: self._last[name] for name in _HEAD_FIELDS if name in self._last}
        return format_event({**head, "choices": [], "watermark": self._watermark})


def without_watermark(data: dict[str, Any]) -> dict[str, Any]:
    """A response or a chunk without the upstream's fields ``watermark``."""
    content = {name: value for name, value in data.items() if name != "watermark"}
    if isinstance(content.get("choices"), list):
        content["choices"] = [
            {name: value for name, value in choice.items() if name != "watermark"}
            if isinstance(choice, dict)
            else choice
            for choice in content["choices"]
        ]
    return content


def _ends_answer(data: Mapping[str, Any]) -> bool:
    """Whether a chunk ends an answer."""
    choices = data.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") is not None for choice in choices
    )


def _lacks_only_end(event: Event) -> bool:
    """Whether an event lacks only the blank line, which some servers omit after the last."""
    if event.data is None or event.is_done:
        return event.is_done
    try:
        json.loads(event.data)
    except (ValueError, RecursionError):
        return False
    return True


def response_too_large() -> APIError:
    """The error for a response or an event that is too large."""
    return APIError(502, "The response of the upstream is too large.", kind="upstream_error")


def response_interrupted() -> APIError:
    """The error for a response that the upstream did not complete."""
    return APIError(502, "The response of the upstream was interrupted.", kind="upstream_error")
