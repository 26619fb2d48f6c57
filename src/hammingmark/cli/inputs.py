"""Files, folders, JSONL and standard input to texts."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hammingmark.cli.binary import recognise
from hammingmark.errors import InputError

_TEXT_SUFFIXES = {".txt", ".md", ".markdown", ".text", ".rst"}
_LINES_SUFFIXES = {".jsonl", ".ndjson"}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """One text and where it came from; or, in its place, why it could not be read."""

    name: str
    text: str = ""
    error: str | None = None


def decode(content: bytes) -> str:
    """Any bytes to text: by their byte order mark, otherwise UTF-8 with what is not replaced."""
    return content.decode(_mark_of(content) or "utf-8", errors="replace")


def _mark_of(content: bytes) -> str | None:
    """The encoding that a byte order mark tells, if there is one."""
    return next((name for mark, name in _MARKS if content.startswith(mark)), None)


def read_sources(paths: Sequence[str], *, field: str) -> Iterator[Source]:
    """Every text under the given names, in order; nothing or ``-`` is standard input.

    A folder gives its text, Markdown and JSONL files, sorted, at any depth. A JSONL file gives a
    text per line, from ``field``. What cannot be read, or is no text, becomes a source with an
    error, and the others go on.
    """
    for name in paths or ["-"]:
        path = Path(name)
        if not name:
            yield Source(name, error="A file's name is empty.")
        elif name == "-":
            yield _read_standard_input()
        elif _is_folder(path):
            yield from _read_folder(path, field=field)
        else:
            yield from _read_file(path, field=field)


def read_text(path: Path) -> str:
    """The text of one file; ``-`` is standard input.

    Raises:
        InputError: it cannot be read, or is no text.
    """
    (text,) = read_texts([str(path)], field="")
    return text


def read_texts(paths: Sequence[str], *, field: str) -> list[str]:
    """The same where every text is needed.

    Raises:
        InputError: one of them cannot be read.
    """
    texts = []
    for source in read_sources(paths, field=field):
        if source.error:
            raise InputError(source.error)
        texts.append(source.text)
    return texts


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long to be one
        return False


def _read_standard_input() -> Source:
    try:
        return _as_source("-", sys.stdin.buffer.read())
    except OSError as error:
        return Source("-", error=f"Cannot read standard input: {error.strerror}.")


def _read_folder(folder: Path, *, field: str) -> Iterator[Source]:
    """The texts of a folder, sorted by their paths, and the folders that cannot be read."""
    shut: list[OSError] = []
    suffixes = _TEXT_SUFFIXES | _LINES_SUFFIXES
    found = sorted(
        path
        for place, _, names in os.walk(folder, onerror=shut.append)
        for path in (Path(place, name) for name in names)
        if path.suffix.lower() in suffixes and _may_be_file(path)
    )
    for error in shut:
        yield Source(str(error.filename), error=f"Cannot read {error.filename}: {error.strerror}.")
    if not found and not shut:
        yield Source(str(folder), error=f"{folder} holds no text, Markdown or JSONL file.")
    for path in found:
        yield from _read_file(path, field=field)


def _may_be_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # reading it will say why it cannot be looked at
        return True


def _read_file(path: Path, *, field: str) -> Iterator[Source]:
    try:
        with path.open("rb") as file:
            if path.suffix.lower() in _LINES_SUFFIXES and field:
                yield from _read_lines(str(path), file, field=field)
            else:
                yield _as_source(str(path), file.read())
    except OSError as error:
        yield Source(str(path), error=f"Cannot read {path}: {error.strerror}.")


def _as_source(name: str, content: bytes) -> Source:
    kind = None if _mark_of(content) else recognise(content)
    if kind is None:
        return Source(name, decode(content))
    what = "Standard input" if name == "-" else name
    return Source(
        name, error=f"{what} is not text; it looks like {kind}. Save it as plain text in UTF-8."
    )


def _read_lines(name: str, file: BinaryIO | Iterable[bytes], *, field: str) -> Iterator[Source]:
    if isinstance(file, io.BufferedReader):
        head = file.peek(4096)[:4096]
        if _mark_of(head):
            file = [line.encode("utf-8", "replace") for line in decode(file.read()).split("\n")]
        elif kind := recognise(head):
            yield Source(name, error=f"{name} is not JSONL; it looks like {kind}.")
            return
    empty = True
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        empty = False
        where = f"{name}:{number}"
        try:
            row = json.loads(decode(line))
        except (ValueError, RecursionError):
            yield Source(where, error=f"{where} is not JSON.")
            continue
        text = row.get(field) if isinstance(row, dict) else None
        if isinstance(text, str):
            yield Source(where, text)
        else:
            there = ", ".join(map(str, row))[:200] if isinstance(row, dict) else "no object"
            yield Source(
                where,
                error=f"{where} has no text in field {field!r} (it has: {there}); name it "
                "with --field.",
            )
    if empty:
        yield Source(name, error=f"{name} holds no text.")
