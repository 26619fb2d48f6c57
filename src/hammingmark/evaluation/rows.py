"""Resumable JSON rows: written batch by batch, checked before a run resumes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hammingmark.errors import InputError
from hammingmark.evaluation.progress import Progress, silent
from hammingmark.reports.text import counted

Row = dict[str, Any]
Make = Callable[[int, Sequence[Row]], Iterable[Row]]
"""From the index of the first source and some consecutive sources to a row for each."""

MEASURED = frozenset({"cost", "seconds", "run", "fingerprint"})
"""Fields that differ from run to run or describe the run; they are no part of a row's content."""


def fingerprint(run: Mapping[str, object], text: str) -> str:
    """SHA-256, in hex, of everything that determines a row: the run's parameters and the text."""
    return hashlib.sha256(json.dumps([run, text], sort_keys=True).encode()).hexdigest()


def read_done(path: Path, texts: Sequence[str], *, run: Mapping[str, object]) -> list[Row]:
    """The rows of an earlier run; an unfinished last line is removed from the file.

    Args:
        path: the file; it may be missing.
        texts: the sources of the rows, in order.
        run: the parameters, which each row contains under ``run``.

    Raises:
        InputError: the file was written by another run, from other texts, or by something else.
    """
    content = _read(path)
    lines = _whole(content).splitlines()
    if len(lines) > len(texts):
        row_count, text_count = counted(len(lines), "row"), counted(len(texts), "text")
        raise _refusal(f"{path} has {row_count} and the input {text_count}")
    rows = [
        _check(line, text, run=run, where=f"{path}:{number}")
        for number, (line, text) in enumerate(zip(lines, texts, strict=False), start=1)
    ]
    if not rows and content:
        raise _refusal(f"{path} exists and was not written by this command")
    _cut_off_unfinished(path, content)
    return rows


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, without a check; an unfinished last line is removed from the file.

    Raises:
        InputError: the file cannot be read.
    """
    content = _read(path)
    _cut_off_unfinished(path, content)
    return [json.loads(line) for line in _whole(content).splitlines()]


def complete(
    sources: Sequence[Row],
    *,
    run: Mapping[str, object],
    make: Make,
    path: Path | None = None,
    batch: int = 1,
    shared: bool = False,
    progress: Progress = silent,
    what: str = "rows",
) -> list[Row]:
    """A row for each source, in order; rows in the file are not made again.

    Rows are identified by the run's parameters, the source, and its index, since seeds depend on
    the index. A killed run loses at most one batch.

    Args:
        sources: the sources of the rows.
        run: the parameters, which each row contains under ``run``.
        make: makes the rows of consecutive sources.
        path: the file of the rows; None stores them nowhere.
        batch: most sources per call of ``make``.
        shared: whether a row depends on all sources of its batch, so that a batch is made as a
            whole and is complete only with the same sources.
        progress: counts the rows that have to be made.
        what: the label of the progress.

    Raises:
        InputError: the file cannot be read or written.
    """
    keys = _keys(sources, run=run, batch=batch if shared else 1)
    done = {row["fingerprint"]: row for row in read_rows(path)} if path else {}
    missing = [index for index, key in enumerate(keys) if key not in done]
    if path and missing:
        path.parent.mkdir(parents=True, exist_ok=True)
    with progress(what, len(missing)) as advance:
        for indices in _batches(missing, len(keys), batch=batch, whole=shared):
            new_rows = make(indices.start, [sources[index] for index in indices])
            rows = [
                json.loads(json.dumps({**row, "run": run, "fingerprint": keys[index]}))
                for index, row in zip(indices, new_rows, strict=True)
            ]  # as they will be when read again
            fresh = [row for row in rows if row["fingerprint"] not in done]
            if path:
                append(path, fresh)
            done.update((row["fingerprint"], row) for row in fresh)
            advance(len(fresh))
    return [done[key] for key in keys]


def read_run(path: Path) -> list[Row]:
    """The rows of a file written by `complete`, which must belong to one run.

    Raises:
        InputError: they belong to several runs, or the file cannot be read.
    """
    rows = read_rows(path)
    runs = {json.dumps(row.get("run"), sort_keys=True) for row in rows}
    if len(runs) > 1:
        raise InputError(
            f"{path} contains rows of {len(runs)} runs; delete it, or use another file."
        )
    return rows


def _keys(sources: Sequence[Row], *, run: Mapping[str, object], batch: int) -> list[str]:
    """The fingerprint of each row: of the run, the sources of its batch, and their index."""
    contents = [
        {name: value for name, value in source.items() if name not in MEASURED}
        for source in sources
    ]
    keys = []
    for first in range(0, len(sources), batch):
        part = contents[first : first + batch]
        content = json.dumps([first, part], sort_keys=True)
        keys += [fingerprint({**run, "within": n}, content) for n in range(len(part))]
    return keys


def _batches(missing: Sequence[int], total: int, *, batch: int, whole: bool) -> Iterator[range]:
    """Ranges of consecutive indices that cover all missing ones."""
    if whole:
        for first in sorted({index - index % batch for index in missing}):
            yield range(first, min(total, first + batch))
        return
    start = 0
    for end in range(1, len(missing) + 1):
        full = end - start == batch
        if end == len(missing) or full or missing[end] != missing[end - 1] + 1:
            yield range(missing[start], missing[end - 1] + 1)
            start = end


def append(path: Path, rows: Iterable[Row]) -> None:
    """Append rows to a file, and flush them to the disk.

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
        written, expected, stored = _flat(row["run"]), _flat(run), row["fingerprint"]
        different = [
            key for key in sorted({*expected, *written}) if expected.get(key) != written.get(key)
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _refusal(f"{where} was not written by this command") from None
    if different:
        key = different[0]
        was, now = written.get(key), expected.get(key)
        raise _refusal(f"{where} was written with {key} {was!r:.100}, which is now {now!r:.100}")
    if stored != fingerprint(run, text):
        raise _refusal(f"{where} was made from another text than the one now in its place")
    checked: Row = row
    return checked


def _flat(run: Mapping[str, Any]) -> dict[str, object]:
    """The run's parameters, with those of the attack on the same level."""
    return {
        **{key: value for key, value in run.items() if key != "parameters"},
        **run["parameters"],
    }


def _refusal(problem: str) -> InputError:
    return InputError(f"{problem}; choose another --out, or start again with --overwrite.")
