"""Structured logs on standard error: a JSON object per line, or a line for people.

A line has the time, the level, the event, the request's id, and fields. What a request says is
never logged; an exception of another library may quote it, so that of these only the kind and the
place are.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal, TextIO

from hammingmark.errors import HammingMarkError

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The request that is being answered; set it where one begins."""

if TYPE_CHECKING:
    _StreamHandler = logging.StreamHandler[TextIO]
else:  # Python 3.10 has no brackets there
    _StreamHandler = logging.StreamHandler

_OURS = "hammingmark"
_SERVER = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
_FIELDS = "fields"
_Format = Literal["json", "text"]


def log_event(
    logger: logging.Logger, event: str, *, level: int = logging.INFO, **fields: object
) -> None:
    """Log an event with fields.

    Args:
        logger: of the module.
        event: a few words, always the same for the same kind of event.
        level: as logging has it.
        fields: plain data that is neither a text of a request or an answer, nor a secret.
    """
    logger.log(level, "%s", event, extra={_FIELDS: fields}, stacklevel=2)


def setup(level: str, *, format: _Format, stream: TextIO | None = None) -> None:
    """Send all logs of this process, those of uvicorn too, to one stream; may be called again.

    Uvicorn must be told ``log_config=None``, or it sets up its own.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``; of other libraries, warnings and
            errors are logged at most.
        format: for machines, or for people.
        stream: standard error by default.
    """
    least = logging.getLevelName(level.upper())
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(handler)
    handler = _Handler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root.addHandler(handler)
    root.setLevel(max(least, logging.WARNING))
    logging.getLogger(_OURS).setLevel(least)
    for name in _SERVER:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(max(least, logging.INFO))  # below, it logs what it sends and receives
    logging.captureWarnings(True)


class _Handler(_StreamHandler):
    """Ours, to be found again."""


class JsonFormatter(logging.Formatter):
    """A record as a JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        return json.dumps(_row_of(record), default=str)


class TextFormatter(logging.Formatter):
    """A record as a line for people: time, level, event, then ``name=value``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end; the place of an exception is on lines of its own."""
        row = _row_of(record)
        time, level, event = row.pop("time"), row.pop("level"), row.pop("event")
        place = row.pop("traceback", [])
        fields = [f"{name}={_word(value)}" for name, value in row.items() if value is not None]
        line = " ".join([time, f"{level:<7}", _printable(event), *fields])
        return "\n".join([line, *(f"    {_printable(each)}" for each in place)])


def _row_of(record: logging.LogRecord) -> dict[str, Any]:
    time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
    row: dict[str, Any] = {
        "time": time.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "event": _event_of(record),
        "request_id": request_id.get(),
        "logger": record.name,
    }
    given = {**_access_fields(record), **getattr(record, _FIELDS, {})}
    row |= {name: value for name, value in given.items() if name not in row}
    if record.exc_info and record.exc_info[0] is not None:
        row |= _exception_fields(record.exc_info[1])
    return row


def _event_of(record: logging.LogRecord) -> str:
    return "request" if _is_access(record) else record.getMessage().strip()


def _is_access(record: logging.LogRecord) -> bool:
    is_five = isinstance(record.args, tuple) and len(record.args) == 5
    return record.name == "uvicorn.access" and is_five


def _access_fields(record: logging.LogRecord) -> dict[str, object]:
    """What uvicorn says of a request, without its query, where somebody may put a secret."""
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
    found: dict[str, object] = {"error": type(error).__name__}
    if isinstance(error, HammingMarkError):
        found["message"] = str(error)
    elif isinstance(error, OSError) and error.strerror:
        found["message"] = error.strerror
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if behind is not None:
        found["cause"] = type(behind).__name__
    found["traceback"] = [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for each in (behind, error)
        if each is not None
        for frame in traceback.extract_tb(each.__traceback__)
    ]
    return found


def _word(value: object) -> str:
    """A value as one word, quoted where it would be more."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    plain = text and not any(each.isspace() or each in "\"='" for each in text)
    return text if plain and text.isprintable() else json.dumps(text)


def _printable(text: str) -> str:
    """A text that stays on its line and does nothing to a terminal."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
