"""Extracting pages from a Wikipedia export, and plain prose from wiki markup.

Only prose is kept: templates, tables, references, pictures, lists and formulas are removed, and a
link is replaced by its text. An element removed from the middle of a sentence leaves the character
``HOLE``, so that incomplete sentences can be recognised.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator

HOLE = "\ufffc"

# Sections without prose.
_BACK_MATTER = {
    "bibliography",
    "discography",
    "external link",
    "external links",
    "external links and references",
    "filmography",
    "footnotes",
    "further reading",
    "notes",
    "notes and references",
    "quotations",
    "quotes",
    "reference",
    "references",
    "related articles",
    "related topics",
    "see also",
    "selected bibliography",
    "source",
    "sources",
    "trivia",
    "works",
}

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_REFERENCE = re.compile(r"<ref\b[^<>]*/>|<ref\b[^<>]*>.*?</ref\s*>", re.DOTALL | re.IGNORECASE)
_NO_PROSE = re.compile(
    r"<(math|code|pre|gallery|timeline|table|nowiki|hiero|imagemap|source|small|div)\b[^<>]*>"
    r".*?</\1\s*>",
    re.DOTALL | re.IGNORECASE,
)
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_TABLE = re.compile(r"^[ :]*\{\|(?:(?!\{\|).)*?^\s*\|\}", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
_OUTSIDE = re.compile(r"\[(?:https?|ftp|mailto)[^\s\]]*(?: ([^\]]*))?\]", re.IGNORECASE)
_HIDDEN_LINK = re.compile(r"(?:image|file|media|category|[a-z]{2,3}(?:-[a-z-]+)?|simple) *:", re.I)
_QUOTE_MARKS = re.compile(r"'{2,5}")
_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_SWITCH = re.compile(r"__[A-Z]+__")
_HEADING = re.compile(r"(={2,6})\s*(.*?)\s*\1")
_EMPTY_BRACKETS = re.compile(r" ?\(\W*\)")
_AFTER_OPENING = re.compile(r"\([\s,;:]+")
_LOOSE = re.compile(r"\s+([,.;:!?)](?:\s|$))")
_SPACES = re.compile(r"[ \t\xa0]+")

_TITLE = re.compile(r"<title>(.*)</title>")
_TEXT_START = re.compile(r'<text xml:space="preserve">')
_NAMESPACE = re.compile(r"(?:Wikipedia|Image|Template|Category|Help|Portal|MediaWiki|User|Talk):")
_LISTS = re.compile(
    r"List of |Lists of |Timeline of |.*\(disambiguation\)"
    r"|\d+(?:s)?(?: BC)?$|(?:January|February|March|April|May|June|July|August|September|October"
    r"|November|December) \d+$"
)

_DEEPEST = 8
"""Markup nested deeper than this is not removed; its braces then remain in the sentence."""


def pages(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Title and markup of each article of a Wikipedia export, without redirects and lists."""
    title = ""
    text: list[str] | None = None
    for line in lines:
        if text is None:
            if match := _TITLE.search(line):
                title = html.unescape(match.group(1))
            elif start := _TEXT_START.search(line):
                text, line = [], line[start.end() :]
        if text is not None:
            body, end, _ = line.partition("</text>")
            text.append(body)
            if end:
                markup, text = html.unescape("".join(text)), None
                if not (markup[:9].upper() == "#REDIRECT" or _skips(title)):
                    yield title, markup


def _skips(title: str) -> bool:
    return bool(_NAMESPACE.match(title) or _LISTS.match(title))


def sections(markup: str) -> list[str]:
    """The prose of one article by section, with blank lines between paragraphs.

    Lists, tables and the like also end a section, since the text after them does not continue the
    text before them.
    """
    return [section for part in _parts(_unfold(markup)) if (section := _join(part))]


def _unfold(markup: str) -> str:
    """Remove nested markup: comments, references, templates, tables and links."""
    text = _COMMENT.sub("", markup)
    text = _NO_PROSE.sub(HOLE, _REFERENCE.sub("", text))
    text = _repeat(_TEMPLATE, HOLE, text)
    text = _repeat(_TABLE, "\n", text)
    for _ in range(_DEEPEST):
        text, count = _LINK.subn(_shown, text)
        if not count:
            break
    return _OUTSIDE.sub(lambda match: match.group(1) or "", text)


def _repeat(pattern: re.Pattern[str], by: str, text: str) -> str:
    """Replace matches repeatedly, from the inside out."""
    for _ in range(_DEEPEST):
        text, count = pattern.subn(by, text)
        if not count:
            break
    return text


def _shown(link: re.Match[str]) -> str:
    """The text that a link shows: ``[[target|text]]``, ``[[target]]`` or ``[[target (x)|]]``."""
    target, bar, text = link.group(1).partition("|")
    if _HIDDEN_LINK.match(target):
        return ""
    if bar and not text:
        return re.sub(r"^:|\s*\(.*\)$", "", target)
    return text if bar else target.removeprefix(":")


def _parts(text: str) -> Iterator[list[str]]:
    """Groups of consecutive paragraphs, separated by headings and lists."""
    part: list[str] = []
    skipping = False
    for line in text.split("\n"):
        if heading := _HEADING.match(line):
            skipping = heading.group(2).strip("' ").lower() in _BACK_MATTER
        elif not skipping and (not line or line[0] not in "*#:;|!{}=- \t"):
            if paragraph := _plain(line):
                part.append(paragraph)
            continue
        if part:
            yield part
        part = []
    if part:
        yield part


def _plain(line: str) -> str:
    line = _TAG.sub("", _BREAK.sub(" ", _SWITCH.sub("", _QUOTE_MARKS.sub("", line))))
    line = _SPACES.sub(" ", html.unescape(line)).strip(f" {HOLE}")
    return _LOOSE.sub(r"\1", _AFTER_OPENING.sub("(", _EMPTY_BRACKETS.sub("", line)))


def _join(paragraphs: Iterable[str]) -> str:
    return "\n\n".join(paragraphs)
