"""Files, folders, JSONL and standard input to texts."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

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
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    return content.decode(encoding, errors="replace")


def read_sources(paths: Sequence[str], *, field: str) -> Iterator[Source]:
    """Every text under the given names, in order; nothing or ``-`` is standard input.

    A folder gives its text, Markdown and JSONL files, sorted, at any depth. A JSONL file gives a
    text a line, from ``field``. What cannot be read becomes a source with an error, and the
    others go on.
    """
    for name in paths or ["-"]:
        if name == "-":
            yield Source("-", decode(sys.stdin.buffer.read()))
            continue
        path = Path(name)
        if _is_folder(path):
            suffixes = _TEXT_SUFFIXES | _LINES_SUFFIXES
            found = [
                child
                for child in sorted(path.rglob("*"))
                if child.suffix.lower() in suffixes and child.is_file()
            ]
            if not found:
                yield Source(name, error=f"{name} holds no text, Markdown or JSONL file.")
            for child in found:
                yield from _read_file(child, field=field)
        else:
            yield from _read_file(path, field=field)


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


def _read_file(path: Path, *, field: str) -> Iterator[Source]:
    try:
        with path.open("rb") as file:
            if path.suffix.lower() in _LINES_SUFFIXES:
                yield from _read_lines(str(path), file, field=field)
            else:
                yield Source(str(path), decode(file.read()))
    except OSError as error:
        yield Source(str(path), error=f"Cannot read {path}: {error.strerror}.")


def _read_lines(name: str, file: BinaryIO | Iterable[bytes], *, field: str) -> Iterator[Source]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
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
            there = ", ".join(map(str, row)) if isinstance(row, dict) else "no object"
            yield Source(
                where,
                error=f"{where} has no text in field {field!r} (it has: {there}); name it "
                "with --field.",
            )
