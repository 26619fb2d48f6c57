"""What content looks like that is not text."""

from __future__ import annotations

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
_MOST_CONTROLS = 0.02  # of the bytes; a stray control character does not make a text binary
_MOST_BROKEN = 0.3  # of the characters; what is left of a text with more says little
_WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_HEAD = 1 << 16  # bytes that are looked at


def recognise(content: bytes) -> str | None:
    """What some content looks like if it is no text, in words; None for text.

    Text is what has few control characters and little that is not UTF-8. Content
    with a byte order mark should not be asked about.
    """
    head = content[:_HEAD]
    if head.startswith(b"PK\x03\x04"):
        return next((words for sign, words in _ZIPPED if sign in content), "a ZIP archive")
    if head[4:8] == b"ftyp" and not _reads_as_text(head):
        return "a video or a photograph (MP4, HEIC)"
    for sign, words in _SIGNATURES:
        if head.startswith(sign) and (len(sign) > 4 or not _reads_as_text(head)):
            return words
    if _reads_as_text(head):
        return None
    if head.count(0) > len(head) / 20 and any(_is_prose(head, each) for each in _WIDE):
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
    """Whether bytes in an encoding are letters and spaces, for the most part."""
    text = head[: len(head) // 4 * 4].decode(encoding, errors="replace")
    plain = sum(character.isalpha() or character in " .,\r\n" for character in text)
    return plain > 0.9 * len(text) and " " in text
