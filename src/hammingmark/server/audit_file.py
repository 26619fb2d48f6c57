"""The file of an audit log: complete lines, each with the hash of the line before.

A line is a JSON object that begins with ``previous``, the SHA-256 of the line before. The first
line of a file has the event ``file``, and as ``previous`` the hash of the last line of the earlier
file, if any. Anyone who can write the file can also compute new hashes: the chain
shows accidents and careless changes, and every change if `AuditFile.head` is kept elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hammingmark.errors import AuditError
from hammingmark.keys.private_files import sync_folder

Row = dict[str, Any]

FORMAT = "hammingmark-audit-1"
_BEGINNING = b'{"previous": '
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND
_FLAGS |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # opening a pipe does not block


class AuditFile:
    """An open audit file, for one thread of one process.

    An incomplete last line is moved to ``FILE.torn``.

    Attributes:
        head: SHA-256 of the last line, in hex; None before the first.
        torn: bytes of the incomplete line that the file had when it was opened.

    Raises:
        AuditError: the file exists and is not an audit log.
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head: str | None = None
        self.torn = 0
        self._size = 0
        self._is_dirty = False
        self._handle = self._open()

    @property
    def is_empty(self) -> bool:
        """Whether the file has no line; the next one must have the event ``file``."""
        return self._size == 0

    def rows(self) -> Iterator[Row]:
        """The records of the file, without invalid lines."""
        for line in _lines(self._handle):
            if (row := _row_of(line)) is not None:
                yield row

    def prepare(self) -> None:
        """Open the file now at the path, if the old one was moved or emptied.

        Raises:
            AuditError: the new file is not an audit log.
            OSError: an incomplete line could not be removed, or the file cannot be opened.
        """
        if self._is_dirty:
            self._truncate()
        if not self._is_current():
            handle = self._open()
            os.close(self._handle)
            self._handle = handle

    def append(self, payloads: Iterable[bytes]) -> None:
        """Write records to disk: all of them or, after an error, none.

        Args:
            payloads: JSON objects with at least one field, without ``previous``.

        Raises:
            OSError: they cannot be written.
        """
        content, head = bytearray(), self.head
        for payload in payloads:
            line = b"%s%s, %s" % (_BEGINNING, json.dumps(head).encode(), payload[1:])
            head = _hash_of(line)
            content += line + b"\n"
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(self._handle, rest) :]
            os.fsync(self._handle)
        except OSError:
            # After a failed fsync the state of the disk is unknown, so the lines are removed.
            self._is_dirty = True
            with suppress(OSError):
                self._truncate()
            raise
        self._size += len(content)
        self.head = head

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _open(self) -> int:
        is_new = not self.path.exists()
        handle = os.open(self.path, _FLAGS, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise AuditError(f"The audit log {self.path} is not a regular file; name another.")
            if is_new:
                sync_folder(self.path.parent)
            self._read_to_the_end(handle)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _read_to_the_end(self, handle: int) -> None:
        size, last, torn = 0, b"", b""
        for line in _lines(handle):
            if size == 0 and not _may_begin(line):
                raise AuditError(
                    f"{self.path} exists and is not an audit log. Move it away, or name another "
                    "file."
                )
            if not line.endswith(b"\n"):
                torn = line
                break
            size += len(line)
            last = line[:-1]
        if torn:
            self._set_aside(torn)
            os.ftruncate(handle, size)
            os.fsync(handle)
        self.torn = len(torn)
        self._size = size
        if size and self.head is None:  # otherwise changes by others would go unnoticed
            self.head = _hash_of(last)

    def _set_aside(self, torn: bytes) -> None:
        aside = os.open(f"{self.path}.torn", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(aside, "ab") as file:
            file.write(torn + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.path.parent)

    def _truncate(self) -> None:
        os.ftruncate(self._handle, self._size)
        self._is_dirty = False

    def _is_current(self) -> bool:
        ours = os.fstat(self._handle)
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(ours, there) and ours.st_size == self._size


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The result of checking the hash chain of an audit log.

    Attributes:
        lines: the number of lines of all files.
        head: SHA-256 of the last line, in hex; None if there is no line.
        problems: what is wrong, a sentence each.
    """

    lines: int
    head: str | None
    problems: list[str]


def verify(path: Path, *, earlier: Sequence[Path] = ()) -> list[str]:
    """The problems of an audit log, as of `check`."""
    return check(path, earlier=earlier).problems


def check(path: Path, *, earlier: Sequence[Path] = (), once: str | None = None) -> ChainReport:
    """Look for lines of an audit log that were changed, removed, added or not completed.

    Lines missing at the end are noticed only if a line follows them, or by the hash of one of them.

    Args:
        path: the file.
        earlier: files that were moved away before it, oldest first.
        once: an earlier head of the log.

    Raises:
        AuditError: a file cannot be read.
    """
    problems: list[str] = []
    count, head, is_held = 0, None, once is None
    before: Path | None = None
    for file_path in [*earlier, path]:
        number = 0
        try:
            with file_path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    if problem := _line_problem(line, number, before=before, head=head):
                        problems.append(f"{file_path}:{number} {problem}")
                    head = _hash_of(line.removesuffix(b"\n"))
                    is_held = is_held or head == once
        except OSError as error:
            raise AuditError(f"Cannot read the audit log {file_path}: {error.strerror}.") from None
        if number == 0:
            problems.append(f"{file_path} has no record.")
        count += number
        before = file_path
    if not is_held:
        problems.append(
            f"No line has the hash {once}: the line with this hash was removed or changed."
        )
    return ChainReport(count, head, problems)


def _line_problem(line: bytes, number: int, *, before: Path | None, head: str | None) -> str:
    """What is wrong with a line; empty if nothing is.

    Args:
        line: the line, with its newline.
        number: its number in the file, from 1.
        before: the earlier file, if any.
        head: the hash of the line before it, in this file or the earlier one.
    """
    row = _row_of(line)
    if not line.endswith(b"\n"):
        return "is incomplete."
    if row is None or "previous" not in row:
        return "is not a record."
    if number == 1 and not _begins(row):
        return "does not begin an audit log: lines before it were removed."
    if number == 1 and before is not None and row["previous"] != head:
        return f"does not follow the last line of {before}."
    if number > 1 and row["previous"] != head:
        return (
            "does not follow the line before it: one of them was changed, or lines between them "
            "were removed or added."
        )
    return ""


def _lines(handle: int) -> Iterator[bytes]:
    with os.fdopen(os.dup(handle), "rb") as file:
        file.seek(0)
        yield from file


def _row_of(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _begins(row: Row) -> bool:
    return row.get("event") == "file" and row.get("format") == FORMAT


def _may_begin(line: bytes) -> bool:
    """Whether a line is the first of an audit log, complete or not."""
    if line.endswith(b"\n"):
        row = _row_of(line)
        return row is not None and _begins(row)
    return line[: len(_BEGINNING)] == _BEGINNING[: len(line)]


def _hash_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
