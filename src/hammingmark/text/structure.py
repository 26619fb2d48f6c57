"""Blocks of a text: paragraphs, list items, quotes, headings, tables, rules and code.

The rules follow CommonMark as far as hard-wrapped prose allows. They do not preserve indentation: a
nested list becomes a flat one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from hammingmark.text.characters import clean, even_line_ends


class Kind(Enum):
    """The kind of a block. Only prose is cut into sentences."""

    PROSE = "prose"
    HEADING = "heading"
    TABLE = "table"
    RULE = "rule"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Block:
    r"""One block of a normalised text.

    Attributes:
        kind: its kind.
        marker: the quote and list marks before the body, such as ``"-"`` or ``"> 2."``.
        body: the text after them, on one line unless it is code.
        gap: ``"\n"`` or ``"\n\n"``; ``""`` after the last block.
    """

    kind: Kind
    marker: str
    body: str
    gap: str

    @property
    def text(self) -> str:
        """Marker and body."""
        return (
            f"{self.marker} {self.body}" if self.marker and self.body else self.marker + self.body
        )


_Parts = tuple[Kind, str, str]  # kind, marker and body of a block

_QUOTE = re.compile(r"(?:> ?)+")
_ITEM = re.compile(r"((?:[-*+]|(\d{1,9})[.)]))(?: |$)", re.ASCII)
_HEADING = re.compile(r"#{1,6}(?: |$)")
_RULE = re.compile(r"-(?: ?-){2,}|\*(?: ?\*){2,}|_(?: ?_){2,}|={3,}")
_FENCE = re.compile(r"(`{3,})[^`]*|(~{3,}).*")
# Below a title, this is reStructuredText's underline, not the start of code.
_UNDERLINE = re.compile("~{3,}")
SPECIAL = frozenset("#|>-*+_=`~0123456789")
# Scripts written without spaces: a line break between two such characters is no space.
_UNSPACED = re.compile(
    "[\u2e80-\u312f\u3190-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)


@dataclass(frozen=True, slots=True)
class _Line:
    """The parts of a clean line: quote depth, list mark and its number, body, kind."""

    depth: int
    mark: str
    number: int | None
    body: str
    kind: Kind
    fence: str = ""

    @property
    def marker(self) -> str:
        return _join(">" * self.depth, self.mark)


def _read(line: str) -> _Line:
    if line[0] not in SPECIAL:
        return _Line(0, "", None, line, Kind.PROSE)
    quote = _QUOTE.match(line)
    depth = quote.group().count(">") if quote else 0
    body = line[quote.end() :] if quote else line
    if _RULE.fullmatch(body):
        return _Line(depth, "", None, body, Kind.RULE)
    item = _ITEM.match(body)
    mark, number = (item.group(1), item.group(2)) if item else ("", None)
    body = body[item.end() :] if item else body
    fence = _FENCE.fullmatch(body)
    kind = Kind.PROSE
    if fence:
        kind = Kind.CODE
    elif _HEADING.match(body):
        kind = Kind.HEADING
    elif len(body) > 1 and body[0] == "|" == body[-1]:
        kind = Kind.TABLE
    opening = (fence.group(1) or fence.group(2)) if fence else ""
    return _Line(depth, mark, int(number) if number else None, body, kind, opening)


@dataclass
class _Paragraph:
    """Prose that the next line may continue."""

    first: _Line
    lines: list[str]

    def continues_with(self, line: _Line, expected: set[int]) -> bool:
        """Whether ``line`` continues the paragraph; otherwise it begins another block."""
        if line.kind is not Kind.PROSE or line.depth != self.first.depth:
            return False
        if not line.mark:
            return True
        # A wrapped line may begin with "1985. Then": only an expected number begins an item.
        begins_item = line.number is None or line.number == 1 or line.number in expected
        return not (begins_item and line.body)

    def add(self, line: _Line) -> None:
        """Append a line, after a space if the script uses spaces."""
        text = _join(line.mark, line.body)
        if not _is_unspaced(self.lines[-1], text):
            self.lines.append(" ")
        self.lines.append(text)

    def close(self) -> _Parts:
        """The finished block, parsed again as one line, which may have become a table row."""
        whole = _read(_join(self.first.marker, "".join(self.lines)))
        return whole.kind, whole.marker, whole.body


def _join(left: str, right: str) -> str:
    return f"{left} {right}" if left and right else left + right


def _is_unspaced(left: str, right: str) -> bool:
    """Whether two joined lines need no space between them."""
    return bool(
        _UNSPACED.match(left[-1])
        and _UNSPACED.match(right[0])
        and not unicodedata.combining(right[0])
    )


def blocks(text: str) -> Iterator[Block]:
    """Cut any text into blocks; their texts and gaps joined are the normalised text."""
    previous: _Parts | None = None
    gap = "\n"
    for parts in _parse(even_line_ends(text)):
        if parts is None:
            gap = "\n\n"
            continue
        if previous is not None:
            yield Block(*previous, gap)
        previous, gap = parts, "\n"
    if previous is not None:
        yield Block(*previous, "")


def _parse(text: str) -> Iterator[_Parts | None]:
    """The blocks in order, as kind, marker and body, with ``None`` for blank lines between."""
    raw_lines = text.split("\n")
    paragraph: _Paragraph | None = None
    code: tuple[_Line, list[str]] | None = None
    expected: set[int] = set()
    below = False  # directly below a block that is not code
    for raw, cleaned in zip(raw_lines, clean(text).split("\n"), strict=True):
        line = _read(cleaned) if cleaned else None
        if code is not None:
            opening, content = code
            closes = line is not None and _closes(opening, line)
            if not closes and (line.depth if line else 0) >= opening.depth:
                content.append(raw)
                continue
            yield _code(opening, [*content, cleaned] if closes else content)
            code, below = None, False
            if closes:
                continue
        if line is None or not (line.body or line.mark):
            if paragraph is not None:
                yield paragraph.close()
                paragraph = None
            expected.clear()
            below = False
            yield None
            continue
        if below and line.kind is Kind.CODE and _UNDERLINE.fullmatch(line.body):
            line = replace(line, kind=Kind.RULE)
        if paragraph is not None:
            if paragraph.continues_with(line, expected):
                paragraph.add(line)
                continue
            yield paragraph.close()
            paragraph = None
        if line.number is not None:
            expected.add(line.number + 1)
        below = line.kind is not Kind.CODE
        if line.kind is Kind.CODE:
            code = (line, [])
        elif line.kind is Kind.PROSE and line.body:
            paragraph = _Paragraph(line, [line.body])
        else:
            yield line.kind, line.marker, line.body
    if code is not None:
        yield _code(*code)
    if paragraph is not None:
        yield paragraph.close()


def _closes(opening: _Line, line: _Line) -> bool:
    """Whether a line ends the code that ``opening`` began."""
    return (
        line.body == line.fence != ""
        and not line.mark
        and line.depth == opening.depth
        and line.fence.startswith(opening.fence)
    )


def _code(opening: _Line, content: list[str]) -> _Parts:
    return Kind.CODE, opening.marker, "\n".join([opening.body, *content]).rstrip()


def normalise(text: str) -> str:
    r"""Normalise a text, as it is generated, split and detected.

    Characters: NFC, single plain spaces, straight quotes, nothing invisible. Lines: a paragraph is
    one line however it was wrapped; headings, table rows, rules, list items, quotes and fenced code
    keep their own lines; one or more blank lines become ``"\n\n"``. Code between fences is not
    changed. White space at both ends is removed.

    Normalising is idempotent, ``normalise(normalise(text)) == normalise(text)``, and takes time
    linear in the length of the text.
    """
    return "".join(block.text + block.gap for block in blocks(text))
