"""Rows of JSON that survive a broken run: written batch by batch, checked before going on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hammingmark.errors import InputError
from hammingmark.evaluation.progress import Progress, silent
from hammingmark.report import counted

Row = dict[str, Any]
Make = Callable[[int, Sequence[Row]], Iterable[Row]]
"""From the place of the first source and some neighbouring sources to a row for each."""

MEASURED = frozenset({"cost", "seconds", "run", "fingerprint"})
"""Fields that differ from run to run, or that say how a row was made: no part of its content."""


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
    """A row for each source, in order; what the file holds is not made again.

    Rows are found again by their content: the run's parameters, the source, and its place among
    the sources, since seeds depend on places. A run that was killed loses no more than one batch.

    Args:
        sources: what the rows are made from.
        run: the parameters, which each row holds under ``run``.
        make: makes the rows of neighbouring sources.
        path: where rows are kept; None keeps them nowhere.
        batch: the most sources that are given to ``make`` at once.
        shared: whether a row depends on all sources of its batch, so that a batch is made as a
            whole and counts as done only with the same sources.
        progress: counts the rows that have to be made.
        what: they are called.

    Raises:
        InputError: the file cannot be read or written.
    """
    keys = _keys(sources, run=run, batch=batch if shared else 1)
    held = {row["fingerprint"]: row for row in read_rows(path)} if path else {}
    missing = [place for place, key in enumerate(keys) if key not in held]
    if path and missing:
        path.parent.mkdir(parents=True, exist_ok=True)
    with progress(what, len(missing)) as advance:
        for places in _batches(missing, len(keys), batch=batch, whole=shared):
            made = make(places.start, [sources[place] for place in places])
            rows = [
                json.loads(json.dumps({**row, "run": run, "fingerprint": keys[place]}))
                for place, row in zip(places, made, strict=True)
            ]  # as they will be when they are read
            new = [row for row in rows if row["fingerprint"] not in held]
            if path:
                append(path, new)
            held.update((row["fingerprint"], row) for row in new)
            advance(len(new))
    return [held[key] for key in keys]


def read_run(path: Path) -> list[Row]:
    """The rows of a file that `complete` wrote, which must be of one run.

    Raises:
        InputError: they are of several runs, or the file cannot be read.
    """
    rows = read_rows(path)
    runs = {json.dumps(row.get("run"), sort_keys=True) for row in rows}
    if len(runs) > 1:
        raise InputError(f"{path} holds rows of {len(runs)} runs; remove it, or name another.")
    return rows


def _keys(sources: Sequence[Row], *, run: Mapping[str, object], batch: int) -> list[str]:
    """The fingerprint of each row: of the run, and of the sources of its batch and their place."""
    contents = [
        {name: value for name, value in source.items() if name not in MEASURED}
        for source in sources
    ]
    keys = []
    for first in range(0, len(sources), batch):
        some = contents[first : first + batch]
        content = json.dumps([first, some], sort_keys=True)
        keys += [fingerprint({**run, "within": n}, content) for n in range(len(some))]
    return keys


def _batches(missing: Sequence[int], total: int, *, batch: int, whole: bool) -> Iterator[range]:
    """Neighbouring places that cover all that are missing."""
    if whole:
        for first in sorted({place - place % batch for place in missing}):
            yield range(first, min(total, first + batch))
        return
    begin = 0
    for end in range(1, len(missing) + 1):
        full = end - begin == batch
        if end == len(missing) or full or missing[end] != missing[end - 1] + 1:
            yield range(missing[begin], missing[end - 1] + 1)
            begin = end


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
