"""Rows of JSON that survive a broken run: written batch by batch, checked before going on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hammingmark.errors import InputError
from hammingmark.report import counted

Row = dict[str, Any]


def fingerprint(run: Mapping[str, object], text: str) -> str:
    """SHA-256, in hex, of all that decides a row: the run's parameters and the text."""
    return hashlib.sha256(json.dumps([run, text], sort_keys=True).encode()).hexdigest()


def read_done(path: Path, texts: Sequence[str], *, run: Mapping[str, object]) -> list[Row]:
    """The rows that an earlier run wrote; a last line that was never finished is cut off.

    Args:
        path: the file; it need not be there.
        texts: what the rows are made of, in order.
        run: the parameters, which each row holds under ``run``.

    Raises:
        InputError: the file is of another run, of other texts, or no such file at all.
    """
    content = _read(path)
    lines = _whole(content).splitlines()
    if len(lines) > len(texts):
        held, given = counted(len(lines), "row"), counted(len(texts), "text")
        raise _refusal(f"{path} holds {held} and the input {given}")
    rows = [
        _check(line, text, run=run, where=f"{path}:{number}")
        for number, (line, text) in enumerate(zip(lines, texts, strict=False), start=1)
    ]
    if not rows and content:
        raise _refusal(f"{path} is there and was not written by this command")
    _cut_off_unfinished(path, content)
    return rows


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that need no check; a last line that was never finished is cut off.

    Raises:
        InputError: the file cannot be read.
    """
    content = _read(path)
    _cut_off_unfinished(path, content)
    return [json.loads(line) for line in _whole(content).splitlines()]


def append(path: Path, rows: Iterable[Row]) -> None:
    """Write rows behind those that are there, and see them to the disk.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        with path.open("ab") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None


def _whole(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def _cut_off_unfinished(path: Path, content: bytes) -> None:
    if not content.endswith(b"\n") and content:
        os.truncate(path, len(_whole(content)))


def _check(line: bytes, text: str, *, run: Mapping[str, object], where: str) -> Row:
    try:
        row = json.loads(line)
        theirs, ours, seal = _flat(row["run"]), _flat(run), row["fingerprint"]
        different = [key for key in sorted({*ours, *theirs}) if ours.get(key) != theirs.get(key)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _refusal(f"{where} was not written by this command") from None
    if different:
        key = different[0]
        was, now = theirs.get(key), ours.get(key)
        raise _refusal(f"{where} was written with {key} {was!r:.100}, and now it is {now!r:.100}")
    if seal != fingerprint(run, text):
        raise _refusal(f"{where} was made of another text than the input now holds in its place")
    checked: Row = row
    return checked


def _flat(run: Mapping[str, Any]) -> dict[str, object]:
    """The run with the attack's own parameters among the others."""
    return {
        **{key: value for key, value in run.items() if key != "parameters"},
        **run["parameters"],
    }


def _refusal(what: str) -> InputError:
    return InputError(f"{what}; name another --out, or say --overwrite to begin anew.")
