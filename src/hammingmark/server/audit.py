"""The audit log: what was answered to whom and under which key, on the disk before it leaves.

Records never hold a text, only its hash. One thread writes them; all that wait are written
together and share one fsync.

A file may be moved away at any time (logrotate without ``copytruncate``, with ``delaycompress``):
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
_OF_THE_LINE = ("previous", "time", "event")
_LONGEST = 30.0  # seconds that anybody waits for a disk
_SLOW = 10.0  # seconds after which one that takes longer is told to be in trouble
_MOST_KEPT = 10_000  # ends of answers that wait for the disk, each of some hundred bytes
_NOT_IN_TIME = "not recorded in time"  # so that who asked was told of an error, and of no end


class AuditTimeout(AuditError):
    """A record is not on the disk in time; it may be later."""


@dataclass(frozen=True, slots=True)
class _PendingRecord:
    row: Row
    payload: bytes
    future: Future[None]
    late: Row | None = None  # what is kept of it, if the disk does not take it in time


class AuditLog:
    """Appends records to a file of JSON Lines; any thread may call.

    On start, every answer that an earlier process began and did not end gets a record of the event
    ``interrupted``. While the file cannot be written, records are refused; it is tried again with
    the next record and every few seconds, and then a record of the event ``recovered`` tells how
    many were lost. The end of an answer that has begun is not lost: it is kept, and written before
    that record with the field ``late``. What is still kept when the process ends is told as
    ``interrupted`` by the next.

    Args:
        path: the file; no other process may have it open.
        text_hash: which hash of a text is kept, if any.
        on_problem: told what is wrong, and None when it is over; called by the writing thread.
        on_refused: told how many records were refused at once, kept or not; likewise.
        retry: seconds between two tries to write while something is wrong.
        now: the time.

    Attributes:
        problem: why records are refused; None if they are not.

    Raises:
        AuditError: another process has the file, it is no audit log, or it cannot be written.
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
        self._kept: list[Row] = []  # ends of such, which the disk did not take
        self._lost = 0
        self._waiting: list[_PendingRecord] = []
        self._is_closing = False
        self._busy_since: float | None = None
        self._changed = threading.Condition()
        with ExitStack() as undone:
            self._lock = self._take_lock()
            undone.callback(self._lock.release)
            try:
                self._file = AuditFile(path)
                undone.callback(self._file.close)
                self._write(self._first_rows())
            except OSError as error:
                raise AuditError(self._cannot_write(error)) from None
            undone.pop_all()
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
        """Whether the disk takes so long that something must be wrong with it."""
        since = self._busy_since
        return since is not None and time.monotonic() - since > _SLOW

    @property
    def head(self) -> str | None:
        """SHA-256 of the last line, in hex: kept elsewhere, it proves that the log went so far."""
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
        """Record that an answer is about to leave; wait for it before the first byte does.

        Args:
            request_id: of the request; no two have the same.
            choice: number of the answer, where a request asks for several.
            endpoint: the path that was called.
            model: what the service calls its model.
            api_key: name of the API key.
            key_id: of the key that marks; None for an unmarked answer.
            label: of the derived key.
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
            request_id: as it began.
            choice: likewise.
            model: likewise.
            api_key: likewise.
            key_id: of the key that marked.
            label: of the derived key.
            status: marked, partly or unmarked.
            reason: why, in a word of ours: a sentence may quote what a model or a client said.
            text: what was sent; its hash and its length are kept.
            counts: numbers by name, such as sentences, candidates and the p-value.
            error: what cut the answer short.
            sent: whether it has left already. One that has not does not leave if this cannot be
                recorded in time, and what is recorded later says so.
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
        """What is kept of a text."""
        content = text.encode("utf-8", "surrogatepass")
        hashed = {} if self._text_hash == "none" else {"sha256": hashlib.sha256(content)}
        told: Row = {f"text_{name}": value.hexdigest() for name, value in hashed.items()}
        return {**told, "text_characters": len(text)}

    def append(
        self, record: Mapping[str, object], *, late: Mapping[str, object] | None = None
    ) -> Future[None]:
        """Write a record; the future is done when it is on the disk, and cannot be cancelled.

        The time is added. The record must hold no text and no secret.

        Args:
            record: plain data with an ``event``.
            late: what is kept of it instead, if it is the end of an answer and the disk does not
                take it.

        Raises:
            ValueError: it holds a number that JSON does not have.
            TypeError: it is no plain data.
        """
        waiting = self._as_waiting({**record}, late=late)
        with self._changed:
            if not self._is_closing:
                self._waiting.append(waiting)
                self._changed.notify()
                return waiting.future
        waiting.future.set_exception(AuditError(f"The audit log {self.path} is closed."))
        return waiting.future

    def close(self) -> None:
        """Write what waits, and give the file back; may be called twice.

        If the disk does not answer, the file stays with this process.
        """
        with self._changed:
            if self._is_closing:
                return
            self._is_closing = True
            self._waiting.append(self._as_waiting({"event": "stopped"}))
            self._changed.notify()
        self._thread.join(_LONGEST)
        if not self._thread.is_alive():
            self._file.close()
            self._lock.release()

    def _as_waiting(
        self, record: Row, *, late: Mapping[str, object] | None = None
    ) -> _PendingRecord:
        when = self._now().astimezone(timezone.utc).isoformat(timespec="milliseconds")
        row = {"time": when, **record}
        future: Future[None] = Future()
        # A client that hangs up cancels what waits for the record, and never the record.
        future.set_running_or_notify_cancel()
        kept = None if late is None else {"time": when, **late}
        return _PendingRecord(row, json.dumps(row, allow_nan=False).encode(), future, kept)

    def _take_lock(self) -> FileLock:
        if not self.path.parent.is_dir():  # which the lock would make
            raise AuditError(
                f"Cannot write the audit log {self.path}: its folder does not exist; make it."
            )
        # Not the file itself: another may be at the path by the time it is looked at.
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
        """What is written on start; the answers are those of an earlier process."""
        left: dict[tuple[str, int], Row] = {}
        for row in self._file.rows():
            _follow(left, row)
        started: Row = {"event": "started", "version": __version__, "process": os.getpid()}
        if self._file.torn:
            started["torn_bytes"] = self._file.torn
        interrupted = [_again("interrupted", row) for row in left.values()]
        return [self._as_waiting(row) for row in (started, *interrupted)]

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
        except Exception as error:  # whatever it is, nobody must wait for ever
            problem = self._cannot_write(error)
            self._lost += sum(not self._keeps(each.late or each.row) for each in batch)
            self._tell(problem)
            if batch:
                with suppress(Exception):  # as in _tell
                    self._on_refused(len(batch))
            for waiting in batch:
                waiting.future.set_exception(AuditError(problem))
        else:
            self._lost, self._kept = 0, []
            self._tell(None)
            for waiting in batch:
                waiting.future.set_result(None)

    def _write(self, batch: list[_PendingRecord]) -> None:
        self._file.prepare()
        front: list[Row] = []
        if self._file.is_empty:
            front.append({"event": "file", "format": FORMAT})
            front += [_again("carried", row) for row in self._open.values()]
        front += self._kept
        if self.problem is not None:
            front.append({"event": "recovered", "lost": self._lost})
        every = [*(self._as_waiting(row) for row in front), *batch]
        self._file.append(waiting.payload for waiting in every)
        for row in (*self._kept, *(waiting.row for waiting in batch)):
            _follow(self._open, row)

    def _keeps(self, row: Row) -> bool:
        """Keep the end of an answer for later, if there is room; False if it is lost."""
        is_end = row.get("event") == "end" and _answer_of(row) in self._open
        if not is_end or len(self._kept) >= _MOST_KEPT:
            return False
        self._kept.append({**row, "late": True, "error": row.get("error") or _NOT_IN_TIME})
        return True

    def _tell(self, problem: str | None) -> None:
        if problem != self.problem:
            self.problem = problem
            with suppress(Exception):  # a fault of the listener must not end the writing
                self._on_problem(problem)

    def _cannot_write(self, error: Exception) -> str:
        if isinstance(error, AuditError):
            return str(error)
        if isinstance(error, OSError):
            advice = "make room there" if error.errno in _FULL else "see to the disk and its rights"
            words = error.strerror or type(error).__name__
            return f"Cannot write the audit log {self.path}: {words}; {advice}."
        return f"Cannot write the audit log {self.path}: {type(error).__name__}."


async def wait_until_written(future: Future[None], *, timeout: float = _LONGEST) -> None:
    """Wait for a record without holding up the event loop.

    To be cancelled while waiting leaves the record as it is.

    Args:
        future: of the record.
        timeout: seconds.

    Raises:
        AuditError: it could not be written.
        AuditTimeout: the disk does not answer.
    """
    waiting = asyncio.wrap_future(future)
    # Where nobody waits any longer the record goes on, and what comes of it is no news here.
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait({waiting}, timeout=timeout)
    if not waiting.done():
        raise AuditTimeout(f"The audit log did not take a record within {timeout:g} seconds.")
    waiting.result()


def _follow(answers: dict[tuple[str, int], Row], row: Row) -> None:
    """Keep those answers that have begun and not ended."""
    event, answer = row.get("event"), _answer_of(row)
    if answer is None:
        return
    if event in ("begin", "carried"):
        answers[answer] = row
    elif event in ("end", "interrupted"):
        answers.pop(answer, None)


def _answer_of(row: Row) -> tuple[str, int] | None:
    """Which answer a record is about; None if about none."""
    request, choice = row.get("request_id"), row.get("choice", 0)
    return (request, choice) if isinstance(request, str) and isinstance(choice, int) else None


def _again(event: str, begun: Row) -> Row:
    """The record of an answer's beginning once more, for another event."""
    fields = {name: value for name, value in begun.items() if name not in _OF_THE_LINE}
    return {"event": event, "began": begun.get("time"), **fields}
