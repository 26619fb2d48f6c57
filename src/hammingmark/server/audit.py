"""The audit log: a record of every answer, on disk before the answer is sent.

Records never contain a text, only its hash. One thread writes them; all waiting records are written
together with one fsync.

The file may be moved away at any time (logrotate without ``copytruncate``, with ``delaycompress``):
the next record begins a new file at the path.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from hammingmark._version import __version__
from hammingmark.errors import AuditError
from hammingmark.server.audit_file import FORMAT, AuditFile, Row, verify

__all__ = ["AuditLog", "AuditTimeout", "verify", "wait_until_written"]

_FULL = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})
_LINE_FIELDS = ("previous", "time", "event")
_TIMEOUT = 30.0  # seconds to wait for the disk
_STUCK = 10.0  # seconds of one write after which the disk counts as stuck
_MAX_LATE = 10_000  # ends of answers kept for the disk, each of some hundred bytes
_NOT_IN_TIME = "not recorded in time"  # the client received an error instead of the end


class AuditTimeout(AuditError):
    """A record was not written in time; it may be written later."""


@dataclass(frozen=True, slots=True)
class _PendingRecord:
    row: Row
    payload: bytes
    future: Future[None]
    late: Row | None = None  # kept instead, if it cannot be written in time


class AuditLog:
    """Appends records to a file of JSON Lines; thread-safe.

    On start, every answer that an earlier process began and did not end gets a record of the event
    ``interrupted``. While the file cannot be written, records are refused. Writing is retried with
    the next record and every few seconds; then a record of the event ``recovered`` counts the lost
    records. The end of an answer that has begun is not lost: it is kept, and written before
    that record with the field ``late``. If the process ends first, the next one records the answer
    as ``interrupted``.

    Args:
        path: the file; no other process may have it open.
        text_hash: the hash of texts in the records.
        on_problem: called with what is wrong, and with None when it is over, by the writing thread.
        on_refused: called with the number of records refused at once, kept or not, likewise.
        retry: seconds between two attempts to write after an error.
        now: gives the current time.

    Attributes:
        problem: why records are refused; None if they are not.

    Raises:
        AuditError: another process has the file, it is not an audit log, or it cannot be written.
    """

    def __init__(
        self,
        path: Path,
        *,
        text_hash: Literal["sha256", "none"] = "sha256",
        on_problem: Callable[[str | None], None] = lambda problem: None,
        on_refused: Callable[[int], None] = lambda count: None,
        retry: float = 5.0,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self.path = path
        self.problem: str | None = None
        self._text_hash = text_hash
        self._on_problem = on_problem
        self._on_refused = on_refused
        self._retry = retry
        self._now = now
        self._open: dict[tuple[str, int], Row] = {}  # answers that have not ended
        self._late: list[Row] = []  # ends of answers that could not be written
        self._lost = 0
        self._waiting: list[_PendingRecord] = []
        self._is_closing = False
        self._busy_since: float | None = None
        self._changed = threading.Condition()
        with ExitStack() as cleanup:
            self._lock = self._take_lock()
            cleanup.callback(self._lock.release)
            try:
                self._file = AuditFile(path)
                cleanup.callback(self._file.close)
                self._write(self._first_rows())
            except OSError as error:
                raise AuditError(self._cannot_write(error)) from None
            cleanup.pop_all()
        self._thread = threading.Thread(target=self._run, name="hammingmark-audit", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"AuditLog({str(self.path)!r}, problem={self.problem!r})"

    def __enter__(self) -> AuditLog:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def is_stuck(self) -> bool:
        """Whether the disk has not finished a write for a long time."""
        since = self._busy_since
        return since is not None and time.monotonic() - since > _STUCK

    @property
    def head(self) -> str | None:
        """SHA-256 (hex) of the last line, which proves the length of the log."""
        return self._file.head

    def begin(
        self,
        request_id: str,
        *,
        choice: int = 0,
        endpoint: str,
        model: str,
        api_key: str | None,
        key_id: str | None,
        label: str | None,
    ) -> Future[None]:
        """Record the beginning of an answer; await it before the first byte is sent.

        Args:
            request_id: the unique id of the request.
            choice: number of the answer, if the request asks for several.
            endpoint: the path of the request.
            model: the name of the model.
            api_key: name of the API key.
            key_id: id of the key that marks; None for an unmarked answer.
            label: label of the derived key.
        """
        return self.append(
            {
                "event": "begin",
                "request_id": request_id,
                "choice": choice,
                "endpoint": endpoint,
                "model": model,
                "api_key": api_key,
                "key_id": key_id,
                "label": label,
            }
        )

    def end(
        self,
        request_id: str,
        *,
        choice: int = 0,
        model: str,
        api_key: str | None,
        key_id: str | None,
        label: str | None,
        status: str,
        reason: str,
        text: str,
        counts: Mapping[str, float | None],
        error: str | None = None,
        sent: bool = True,
    ) -> Future[None]:
        """Record how an answer ended.

        Args:
            request_id: as in `begin`.
            choice: as in `begin`.
            model: as in `begin`.
            api_key: as in `begin`.
            key_id: id of the key that marked.
            label: label of the derived key.
            status: marked, partly or unmarked.
            reason: the cause, as a metric label; a sentence may quote the model or the client.
            text: what was sent; its hash and its length are recorded.
            counts: numbers by name, such as sentences, candidates and the p-value.
            error: what interrupted the answer.
            sent: whether it has been sent. If not, it is not sent unless this record is written
                in time, and a later record says so.
        """
        head: Row = {
            "event": "end",
            "request_id": request_id,
            "choice": choice,
            "model": model,
            "api_key": api_key,
        }
        row: Row = {
            **head,
            "key_id": key_id,
            "label": label,
            "status": status,
            "reason": reason,
            **self._text_fields(text),
            "counts": dict(counts),
            "error": error,
        }
        unsent: Row = {"key_id": None, "label": None, "status": "unmarked", "reason": "cut_short"}
        return self.append(
            row, late=None if sent else {**head, **unsent, **self._text_fields(""), "counts": {}}
        )

    def _text_fields(self, text: str) -> Row:
        """The fields of a record about a text."""
        if self._text_hash == "none":
            return {"text_characters": len(text)}
        content = text.encode("utf-8", "surrogatepass")
        return {
            "text_sha256": hashlib.sha256(content).hexdigest(),
            "text_characters": len(text),
        }

    def append(
        self, record: Mapping[str, object], *, late: Mapping[str, object] | None = None
    ) -> Future[None]:
        """Write a record; the future is done when it is on disk, and cannot be cancelled.

        The time is added. The record must not contain a text or a secret.

        Args:
            record: plain data with an ``event``.
            late: kept instead, if the record is the end of an answer and cannot be written.

        Raises:
            ValueError: it contains a number that JSON does not have.
            TypeError: it is not plain data.
        """
        waiting = self._pending({**record}, late=late)
        with self._changed:
            if not self._is_closing:
                self._waiting.append(waiting)
                self._changed.notify()
                return waiting.future
        waiting.future.set_exception(AuditError(f"The audit log {self.path} is closed."))
        return waiting.future

    def close(self) -> None:
        """Write the waiting records and close the file; may be called twice.

        If the disk does not respond, the file stays open.
        """
        with self._changed:
            if self._is_closing:
                return
            self._is_closing = True
            self._waiting.append(self._pending({"event": "stopped"}))
            self._changed.notify()
        self._thread.join(_TIMEOUT)
        if not self._thread.is_alive():
            self._file.close()
            self._lock.release()

    def _pending(self, record: Row, *, late: Mapping[str, object] | None = None) -> _PendingRecord:
        when = self._now().astimezone(timezone.utc).isoformat(timespec="milliseconds")
        row = {"time": when, **record}
        future: Future[None] = Future()
        # A client that disconnects cancels the wait for the record, never the record.
        future.set_running_or_notify_cancel()
        kept = None if late is None else {"time": when, **late}
        return _PendingRecord(row, json.dumps(row, allow_nan=False).encode(), future, kept)

    def _take_lock(self) -> FileLock:
        if not self.path.parent.is_dir():  # which the lock would make
            raise AuditError(
                f"Cannot write the audit log {self.path}: its folder does not exist. Create it."
            )
        # Not the file itself, which may be moved away.
        lock = FileLock(f"{self.path}.lock", mode=0o600, thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise AuditError(
                f"Another process has the audit log {self.path}; stop it, or name another file."
            ) from None
        except OSError as error:
            raise AuditError(self._cannot_write(error)) from None
        return lock

    def _first_rows(self) -> list[_PendingRecord]:
        """The records on start, with the interrupted answers of an earlier process."""
        left: dict[tuple[str, int], Row] = {}
        for row in self._file.rows():
            _follow(left, row)
        started: Row = {"event": "started", "version": __version__, "process": os.getpid()}
        if self._file.torn:
            started["torn_bytes"] = self._file.torn
        interrupted = [_again("interrupted", row) for row in left.values()]
        return [self._pending(row) for row in (started, *interrupted)]

    def _run(self) -> None:
        is_closing = False
        while not is_closing:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._waiting, timeout=None if self.problem is None else self._retry
                )
                batch, self._waiting = self._waiting, []
                is_closing = self._is_closing
            self._busy_since = time.monotonic()
            self._commit(batch)
            self._busy_since = None

    def _commit(self, batch: list[_PendingRecord]) -> None:
        try:
            self._write(batch)
        except Exception as error:  # of any kind: the futures must be done
            problem = self._cannot_write(error)
            self._lost += sum(not self._keep(each.late or each.row) for each in batch)
            self._report(problem)
            if batch:
                with suppress(Exception):  # as in _report
                    self._on_refused(len(batch))
            for waiting in batch:
                waiting.future.set_exception(AuditError(problem))
        else:
            self._lost, self._late = 0, []
            self._report(None)
            for waiting in batch:
                waiting.future.set_result(None)

    def _write(self, batch: list[_PendingRecord]) -> None:
        self._file.prepare()
        front: list[Row] = []
        if self._file.is_empty:
            front.append({"event": "file", "format": FORMAT})
            front += [_again("carried", row) for row in self._open.values()]
        front += self._late
        if self.problem is not None:
            front.append({"event": "recovered", "lost": self._lost})
        records = [*(self._pending(row) for row in front), *batch]
        self._file.append(record.payload for record in records)
        for row in (*self._late, *(waiting.row for waiting in batch)):
            _follow(self._open, row)

    def _keep(self, row: Row) -> bool:
        """Keep the end of an answer for later, if there is room; False if it is lost."""
        is_end = row.get("event") == "end" and _answer_of(row) in self._open
        if not is_end or len(self._late) >= _MAX_LATE:
            return False
        self._late.append({**row, "late": True, "error": row.get("error") or _NOT_IN_TIME})
        return True

    def _report(self, problem: str | None) -> None:
        if problem != self.problem:
            self.problem = problem
            with suppress(Exception):  # an error of the callback must not end the thread
                self._on_problem(problem)

    def _cannot_write(self, error: Exception) -> str:
        if isinstance(error, AuditError):
            return str(error)
        if isinstance(error, OSError):
            is_full = error.errno in _FULL
            advice = "Free space on the disk." if is_full else "Check the disk and its permissions."
            cause = error.strerror or type(error).__name__
            return f"Cannot write the audit log {self.path}: {cause}. {advice}"
        return f"Cannot write the audit log {self.path}: {type(error).__name__}."


async def wait_until_written(future: Future[None], *, timeout: float = _TIMEOUT) -> None:
    """Await a record without blocking the event loop; cancelling leaves the record as it is.

    Args:
        future: the future of the record.
        timeout: seconds.

    Raises:
        AuditError: it could not be written.
        AuditTimeout: the disk does not respond.
    """
    waiting = asyncio.wrap_future(future)
    # After a cancellation, the record is still written; its error is retrieved, not logged.
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait({waiting}, timeout=timeout)
    if not waiting.done():
        raise AuditTimeout(f"The audit log did not take a record within {timeout:g} seconds.")
    waiting.result()


def _follow(answers: dict[tuple[str, int], Row], row: Row) -> None:
    """Update the answers that have begun and not ended by a record."""
    event, answer = row.get("event"), _answer_of(row)
    if answer is None:
        return
    if event in ("begin", "carried"):
        answers[answer] = row
    elif event in ("end", "interrupted"):
        answers.pop(answer, None)


def _answer_of(row: Row) -> tuple[str, int] | None:
    """The answer that a record is about; None if about none."""
    request, choice = row.get("request_id"), row.get("choice", 0)
    return (request, choice) if isinstance(request, str) and isinstance(choice, int) else None


def _again(event: str, begun: Row) -> Row:
    """The record of an answer's beginning, repeated for another event."""
    fields = {name: value for name, value in begun.items() if name not in _LINE_FIELDS}
    return {"event": event, "began": begun.get("time"), **fields}
