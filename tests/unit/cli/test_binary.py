"""A file that is not text is refused, with its kind."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from pathlib import Path

import pytest
from tests.errors import raises_naming

from hammingmark.cli.inputs import read_sources, read_text, recognise
from hammingmark.errors import InputError


def zipped(*names: str, first: bytes = b"") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, first or b"<xml/>")
    return file.getvalue()


BINARY = {
    "a PNG image": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    "an ELF program": Path("/bin/sh").read_bytes() if Path("/bin/sh").exists() else b"\x7fELF\x00",
    "a PDF document": b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\n",
    "a Word document (DOCX)": zipped("[Content_Types].xml", "word/document.xml"),
    "an Excel workbook (XLSX)": zipped("[Content_Types].xml", "xl/workbook.xml"),
    "an OpenDocument file": zipped("mimetype", first=b"application/vnd.oasis.opendocument.text"),
    "a ZIP archive": zipped("a.txt"),
    "gzip data": gzip.compress(b"Hello there. " * 100),
    "UTF-16 or UTF-32 without a byte order mark": "One here. Two here.".encode("utf-16-le"),
    "text in an encoding other than UTF-8": "Привет, мир. Как дела?".encode("cp1251"),
    "binary data": random.Random(0).randbytes(10_000),
}
TEXT = {
    "nothing": b"",
    "prose": b"One here. Two here.",
    "UTF-8": "Größe. 它来了。 \U0001f600".encode(),
    "Latin-1": "Der Bär aß süße Brötchen im Café.".encode("latin-1"),
    "a stray control character": b"One here.\x0c Two here.\x1b[0m\n" * 20,
    "text that begins like a signature": b"BZhello there. GIF8 is no image. ID3 neither.",
    "RIFF as a word": b"RIFF means Resource Interchange File Format.",
    "one stray zero byte": b"One here. Two here.\x00 Three here. " * 1 + b"More prose here. " * 20,
    "about a box": b"The ftyp box is the first in a file.",
    "cut inside a character": "它来了。".encode() * 10_000,
}


@pytest.mark.parametrize("kind", BINARY)
def test_binary_content_is_named(kind: str) -> None:
    assert recognise(BINARY[kind]) == kind


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["One here. Two here.", "Привет мир. Как дела у вас."])
def test_wide_characters_without_a_mark_are_named(encoding: str, text: str) -> None:
    assert recognise(text.encode(encoding)) == "UTF-16 or UTF-32 without a byte order mark"


@pytest.mark.parametrize("kind", TEXT)
def test_text_is_text(kind: str) -> None:
    assert recognise(TEXT[kind]) is None


@pytest.mark.parametrize("suffix", [".txt", ".bin", ".jsonl", ""])
def test_a_binary_file_has_no_verdict_and_stops_no_other(tmp_path: Path, suffix: str) -> None:
    path, good = tmp_path / f"a{suffix}", tmp_path / "good.txt"
    path.write_bytes(BINARY["a PNG image"])
    good.write_text("One here.")
    bad, fine = read_sources([str(path), str(good)], field="text")
    assert bad.error is not None
    assert "looks like a PNG image" in bad.error
    assert fine.text == "One here."


def test_a_byte_order_mark_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("One here.".encode("utf-16"))
    assert read_text(path) == "One here."


def test_a_prompt_is_read_by_the_same_rules(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_bytes(BINARY["a PDF document"])
    with raises_naming(InputError, "PDF"):
        read_text(path)
    with raises_naming(InputError, "absent"):
        read_text(tmp_path / "absent")
