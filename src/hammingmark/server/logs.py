"""Structured logs on standard error: one JSON object or one readable line per event.

A line has the time, the level, the event, the request's id, and fields. The content of requests is
never logged. Exceptions of other libraries may quote it, so only their type and place are logged.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal, TextIO

from hammingmark.errors import HammingMarkError, InferenceError

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the current request."""

if TYPE_CHECKING:
    _StreamHandler = logging.StreamHandler[TextIO]
else:  # not generic at run time in Python 3.10
    _StreamHandler = logging.StreamHandler

_OURS = "hammingmark"
_SERVER = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
_FIELDS = "fields"
Format = Literal["auto", "json", "text"]


def log_event(
    logger: logging.Logger, event: str, *, level: int = logging.INFO, **fields: object
) -> None:
    """Log an event with fields.

    Args:
        logger: the logger of the module.
        event: a few words, always the same for the same kind of event.
        level: the level, as in `logging`.
        fields: plain data without secrets or texts of requests and answers.
    """
    logger.log(level, "%s", event, extra={_FIELDS: fields}, stacklevel=2)


def setup(level: str, *, format: Format, stream: TextIO | None = None) -> None:
    """Send all logs of this process, those of uvicorn too, to one stream; may be called again.

    Uvicorn must run with ``log_config=None``, or it sets up its own logs.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``; of other libraries, only warnings
            and errors are logged.
        format: ``json``, ``text``, or ``auto``: text on a terminal, JSON elsewhere.
        stream: the stream; standard error by default.
    """
    lowest = logging.getLevelName(level.upper())
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(handler)
    stream = sys.stderr if stream is None else stream
    is_text = stream.isatty() if format == "auto" else format == "text"
    handler = _Handler(stream)
    handler.setFormatter(TextFormatter() if is_text else JsonFormatter())
    root.addHandler(handler)
    root.setLevel(max(lowest, logging.WARNING))
    logging.getLogger(_OURS).setLevel(lowest)
    for name in _SERVER:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(max(lowest, logging.INFO))  # at debug it logs request contents
    logging.captureWarnings(True)


class _Handler(_StreamHandler):
    """The handler of this module, which `setup` replaces."""


class JsonFormatter(logging.Formatter):
    """A record as a JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its newline."""
        return json.dumps(_row_of(record), default=str)


class TextFormatter(logging.Formatter):
    """A record as a readable line: local time, level, event, then ``name=value``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its newline; the traceback of an exception follows on further lines."""
        row = _row_of(record)
        level, event, request = row.pop("level"), row.pop("event"), row.pop("request_id")
        traceback = row.pop("traceback", [])
        for name in ("time", "logger"):
            del row[name]
        row["request_id"] = request
        time = datetime.fromtimestamp(record.created).isoformat(" ", timespec="seconds")
        fields = [f"{name}={_quoted(value)}" for name, value in row.items() if value is not None]
        line = " ".join([time, f"{level:<7}", _printable(event), *fields])
        return "\n".join([line, *(f"    {_printable(frame)}" for frame in traceback)])


def _row_of(record: logging.LogRecord) -> dict[str, Any]:
    time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
    row: dict[str, Any] = {
        "time": time.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "event": _event_of(record),
        "request_id": request_id.get(),
        "logger": record.name,
    }
    fields = {**_access_fields(record), **getattr(record, _FIELDS, {})}
    row |= {name: value for name, value in fields.items() if name not in row}
    if record.exc_info and record.exc_info[0] is not None:
        row |= _exception_fields(record.exc_info[1])
    return row


def _event_of(record: logging.LogRecord) -> str:
    return "request" if _is_access(record) else record.getMessage().strip()


def _is_access(record: logging.LogRecord) -> bool:
    has_fields = isinstance(record.args, tuple) and len(record.args) == 5
    return record.name == "uvicorn.access" and has_fields


def _access_fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields of uvicorn's access log, without the query, which may contain a secret."""
    if not _is_access(record) or not isinstance(record.args, tuple):
        return {}
    client, method, path, _, status = record.args
    return {
        "client": client,
        "method": method,
        "path": str(path).partition("?")[0],
        "status": status,
    }


def _exception_fields(error: BaseException | None) -> dict[str, object]:
    if error is None:
        return {}
    fields: dict[str, object] = {"error": type(error).__name__}
    if isinstance(error, InferenceError):
        fields["message"] = error.failure.summary  # the detail may quote a request
    elif isinstance(error, HammingMarkError):
        fields["message"] = str(error)
    elif isinstance(error, OSError) and error.strerror:
        fields["message"] = error.strerror
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        fields["cause"] = type(cause).__name__
    fields["traceback"] = [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for exception in (cause, error)
        if exception is not None
        for frame in traceback.extract_tb(exception.__traceback__)
    ]
    return fields


def _quoted(value: object) -> str:
    """A value as one word, in quotes if it has spaces."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    is_word = text and not any(char.isspace() or char in "\"='" for char in text)
    return text if is_word and text.isprintable() else json.dumps(text)


def _printable(text: str) -> str:
    """A text with control characters escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
