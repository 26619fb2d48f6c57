"""Reading texts from files, folders, JSONL and standard input."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from hammingmark.errors import InputError
from hammingmark.reports.text import counted, printable

_SIGNATURES = (
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "a RIFF file (WebP, WAV or AVI)"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Word, Excel or PowerPoint document"),
    (b"{\\rtf", "a document in rich text format"),
    (b"\x7fELF", "an ELF program"),
    (b"MZ\x90\x00", "a Windows program"),
    (b"\xcf\xfa\xed\xfe", "a macOS program"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"(\xb5/\xfd", "Zstandard data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"GGUF", "a GGUF model"),
    (b"ID3", "an MP3 recording"),
    (b"OggS", "an Ogg recording"),
    (b"fLaC", "a FLAC recording"),
    (b"PAR1", "a Parquet table"),
)
_ZIPPED = (
    (b"word/document.xml", "a Word document (DOCX)"),
    (b"xl/workbook.xml", "an Excel workbook (XLSX)"),
    (b"ppt/presentation.xml", "a PowerPoint presentation (PPTX)"),
    (b"mimetypeapplication/vnd.oasis", "an OpenDocument file"),
    (b"mimetypeapplication/epub", "an e-book (EPUB)"),
)
_WHITE = frozenset(b"\t\n\v\f\r\x1b")
_CONTROLS = bytes(byte for byte in range(32) if byte not in _WHITE) + b"\x7f"
_MOST_CONTROLS = 0.02  # share of the bytes; stray control characters do not make a text binary
_MOST_BROKEN = 0.3  # share of characters that are not UTF-8; beyond it a text is unusable
_WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_HEAD = 1 << 16  # bytes that are examined

_MOST_KINDS = 5  # of skipped files that are named
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
    """A text and its origin, or the error of reading it."""

    name: str
    text: str = ""
    error: str | None = None


def decode(content: bytes) -> str:
    """Decode bytes by their byte order mark, otherwise as UTF-8; invalid bytes are replaced."""
    return content.decode(_mark_of(content) or "utf-8", errors="replace")


def _mark_of(content: bytes) -> str | None:
    """The encoding that the byte order mark indicates, if there is one."""
    return next((name for mark, name in _MARKS if content.startswith(mark)), None)


def read_sources(
    paths: Sequence[str], *, field: str, names_skipped: bool = True
) -> Iterator[Source]:
    """Read every text under the paths, in order; no path or ``-`` is standard input.

    A folder stands for its text, Markdown and JSONL files, sorted, at any depth. A JSONL file has
    one text per line, in ``field``. Anything that cannot be read or is not text becomes a source
    with an error, and reading continues.

    Args:
        paths: files and folders.
        field: of the lines of a JSONL file.
        names_skipped: whether standard error says which other files a folder has.
    """
    for name in paths or ["-"]:
        path = Path(name)
        if not name:
            yield Source(name, error="A file name is empty.")
        elif name == "-":
            yield _read_standard_input()
        elif _is_folder(path):
            yield from _read_folder(path, field=field, names_skipped=names_skipped)
        else:
            yield from _read_file(path, field=field)


def read_text(path: Path) -> str:
    """Read the text of one file; ``-`` is standard input.

    Raises:
        InputError: the file cannot be read, or is not text.
    """
    (text,) = read_texts([str(path)], field="")
    return text


def read_texts(paths: Sequence[str], *, field: str) -> list[str]:
    """Read texts like `read_sources`, and raise if one cannot be read.

    Raises:
        InputError: a text cannot be read.
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
    except OSError:  # the name is too long
        return False


def _read_standard_input() -> Source:
    try:
        return _as_source("-", sys.stdin.buffer.read())
    except OSError as error:
        return Source("-", error=f"Cannot read standard input: {error.strerror}.")


def _read_folder(folder: Path, *, field: str, names_skipped: bool) -> Iterator[Source]:
    """The texts of a folder, sorted by path, and the folders that cannot be read."""
    errors: list[OSError] = []
    paths = sorted(
        Path(parent, name)
        for parent, _, names in os.walk(folder, onerror=errors.append)
        for name in names
    )
    suffixes = _TEXT_SUFFIXES | _LINES_SUFFIXES
    files = [path for path in paths if path.suffix.lower() in suffixes and _may_be_file(path)]
    if names_skipped:
        _name_skipped(folder, [path for path in paths if path.suffix.lower() not in suffixes])
    for error in errors:
        yield Source(str(error.filename), error=f"Cannot read {error.filename}: {error.strerror}.")
    if not files and not errors:
        yield Source(str(folder), error=f"{folder} contains no text, Markdown or JSONL file.")
    for path in files:
        yield from _read_file(path, field=field)


def _name_skipped(folder: Path, paths: Iterable[Path]) -> None:
    """Say how many files of a folder are not read, by suffix; hidden files go without saying."""
    counts = Counter(
        path.suffix.lower() or "no suffix"
        for path in paths
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if counts:
        kinds = ", ".join(f"{kind} ({count:,})" for kind, count in counts.most_common(_MOST_KINDS))
        more = ", …" if len(counts) > _MOST_KINDS else ""
        click.echo(
            f"Skipped {counted(counts.total(), 'file')} of {printable(str(folder))} that are not "
            f"text, Markdown or JSONL: {printable(kinds)}{more}.",
            err=True,
        )


def _may_be_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # reading it will raise the error
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
    subject = "Standard input" if name == "-" else name
    return Source(
        name, error=f"{subject} is not text; it looks like {kind}. Save it as plain text in UTF-8."
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
        if not isinstance(row, dict):
            yield Source(where, error=f"{where} is not a JSON object.")
            continue
        text = row.get(field)
        if isinstance(text, str):
            yield Source(where, text)
        else:
            fields = ", ".join(map(str, row))[:200]
            yield Source(
                where,
                error=f"{where} has no text in the field {field!r}; its fields are: {fields}. Name "
                "one with --field.",
            )
    if empty:
        yield Source(name, error=f"{name} contains no text.")


def recognise(content: bytes) -> str | None:
    """The kind of binary content, in words; None for text.

    Text has few control characters and few bytes that are not UTF-8. The content must not begin
    with a byte order mark.
    """
    head = content[:_HEAD]
    if head.startswith(b"PK\x03\x04"):
        return next((kind for sign, kind in _ZIPPED if sign in content), "a ZIP archive")
    if head[4:8] == b"ftyp" and not _reads_as_text(head):
        return "a video or a photograph (MP4, HEIC)"
    for sign, kind in _SIGNATURES:
        if head.startswith(sign) and (len(sign) > 4 or not _reads_as_text(head)):
            return kind
    if _reads_as_text(head):
        return None
    if head.count(0) > len(head) / 20 and any(_is_prose(head, encoding) for encoding in _WIDE):
        return "UTF-16 or UTF-32 without a byte order mark"
    return "binary data" if _is_controlled(head) else "text in an encoding other than UTF-8"


def _reads_as_text(head: bytes) -> bool:
    characters = head.decode("utf-8", errors="replace")
    broken = characters.count("\ufffd")
    return not _is_controlled(head) and broken <= _MOST_BROKEN * len(characters)


def _is_controlled(head: bytes) -> bool:
    controls = len(head) - len(head.translate(None, delete=_CONTROLS))
    return controls > _MOST_CONTROLS * len(head)


def _is_prose(head: bytes, encoding: str) -> bool:
    """Whether bytes, read in an encoding, are mostly letters and spaces."""
    text = head[: len(head) // 4 * 4].decode(encoding, errors="replace")
    plain = sum(character.isalpha() or character in " .,\r\n" for character in text)
    return plain > 0.9 * len(text) and " " in text
