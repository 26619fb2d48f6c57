"""Extracting sections of prose from plain text: encyclopedia articles, books, and other texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

# "Africa.In the": the export lost a footnote and its space.
_GLUED = re.compile(r"([a-z)]{2}[.!?][\"”’]?)([A-Z][a-z])")
_ARTICLE_HEADING = re.compile(r"\*+: (.*?) - ")

_LICENCE_START = re.compile(r"\*\*\* ?START OF TH(?:E|IS) .*?\*\*\*", re.DOTALL)
_LICENCE_END = re.compile(
    r"\*\*\* ?END OF TH(?:E|IS) |End of (?:the |this )?Project Gutenberg|\*END\*?THE SMALL PRINT"
    r"|\*\*\*START\*\*THE SMALL PRINT",
    re.IGNORECASE,
)
_FIRST_CHAPTER = re.compile(r"^(?:chapter|letter) (?:1|i|one)\b", re.IGNORECASE | re.MULTILINE)
_CONTENTS_LINE = re.compile(r"(?:\.{3,}|\s{3,})\s*(?:\d+|[ivxlc]+)\s*$", re.IGNORECASE)
_ENDS = re.compile(r"[.!?:;,\-—][\"'”’)\]_*]*$")

_VERSE_WIDTH = 45
"""Lines of prose are longer than this; lines of verse and lists are not."""


def article_sections(text: str) -> list[str]:
    """Sections of an article of ``wiki100``: a line of the form ``*: Heading - text`` begins one.

    Formulas are exported as short lines that begin with a space or a tab. They also end a section.
    """
    return _gather(_article_lines(text))


def _article_lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if heading := _ARTICLE_HEADING.match(line):
            yield ""
            line = line[heading.end() :]
        if not line.strip():
            continue
        yield "" if line[0] in " \t" else _GLUED.sub(r"\1 \2", line.strip())


def book_sections(text: str) -> list[str]:
    """Chapters of a book in plain text, without licence, front matter, headings and verse."""
    paragraphs = re.split(r"\n\s*\n", _body(text.replace("\r\n", "\n")).replace("\t", " "))
    return _gather(_even(each) if _is_prose(each) else "" for each in paragraphs)


def _body(text: str) -> str:
    """The text between the licences, from the first chapter on if it is near the beginning."""
    if start := _LICENCE_START.search(text):
        text = text[start.end() :]
    if end := _LICENCE_END.search(text, len(text) // 2):
        text = text[: end.start()]
    chapters = [match.start() for match in _FIRST_CHAPTER.finditer(text, 0, len(text) // 10)]
    return text[chapters[-1] :] if chapters else text


def _is_prose(paragraph: str) -> bool:
    lines = [line.strip() for line in paragraph.strip("\n").split("\n")]
    whole = " ".join(lines)
    if not _ENDS.search(whole) or whole.isupper() or whole.startswith("["):
        return False
    if any(_CONTENTS_LINE.search(line) for line in lines):
        return False
    if len(lines) >= 3:
        return max(map(len, lines)) > _VERSE_WIDTH
    return len(whole.split()) > 3


def _even(paragraph: str) -> str:
    """The paragraph on one line, with uniform quotes and dashes, without marks of emphasis."""
    text = re.sub(r"[_*]+(\S(?:[^_*]*\S)?)[_*]+", r"\1", " ".join(paragraph.split()))
    return re.sub(r"``|''", '"', text).replace("`", "'").replace("--", "—")


def text_sections(text: str) -> list[str]:
    """The sections of a text with one paragraph per line."""
    return _gather(_GLUED.sub(r"\1 \2", line.strip()) for line in text.split("\n") if line.strip())


def _gather(paragraphs: Iterator[str]) -> list[str]:
    """Group paragraphs into sections, which empty paragraphs separate."""
    return ["\n\n".join(group) for full, group in groupby(paragraphs, key=bool) if full]
