"""A dated report as a page of HTML of its own: nothing is loaded, nothing is run."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from base64 import b64encode
from collections.abc import Iterator
from datetime import timezone
from hashlib import sha256
from typing import TYPE_CHECKING

from hammingmark._version import __version__
from hammingmark.reports.dated import DatedReport, Outcome
from hammingmark.reports.text import (
    edges_in_words,
    format_p_value,
    is_near_edge,
    passage_in_words,
)

if TYPE_CHECKING:
    from hammingmark.records import Passage, Verdict

_HEADLINES: dict[Outcome, str] = {
    "found": "The watermark was found",
    "part": "The watermark was found in part of the text",
    "weak": "Weak evidence for the watermark",
    "absent": "No watermark was found",
    "unknown": "The test cannot tell",
    "short": "Too short to tell",
}
_STYLE = """
:root { color-scheme: light; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; background: #fff; color: #1f1c18;
  font: 1rem/1.5 system-ui, "Segoe UI", "Liberation Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.125rem; margin: 0; color: #5c554c; }
h2 { font-size: 1.5rem; line-height: 1.25; margin: 0.5rem 0; }
h3 { font-size: 1.0625rem; margin: 1.5rem 0 0.25rem; }
p { margin: 0.5rem 0; }
ul { margin: 0.25rem 0; padding-inline-start: 1.25rem; }
.verdict { margin: 1rem 0; padding: 0.75rem 1rem; border: 1px solid #8a8175;
  border-left: 6px solid #4b749f; }
.found, .part { border-left-color: #8a3b12; }
.weak, .unknown, .short { border-left-style: dashed; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.125rem 1.5rem;
  margin: 0.5rem 0; font-size: 0.9375rem; }
dt { color: #5c554c; }
dd { margin: 0; }
.text { padding: 1rem; border: 1px solid #d8d1c7; white-space: pre-wrap;
  font: 1.0625rem/1.7 Charter, Georgia, "Liberation Serif", serif; }
.passage { margin: 0.75rem 0; padding: 0.5rem 0.75rem; border: 2px dashed #8a3b12; }
.name { display: block; color: #8a3b12; font: 600 0.8125rem/1.4 system-ui, sans-serif; }
.edge { text-decoration: underline dotted #8a3b12; }
sup { margin-inline-end: 0.125rem; color: #5c554c; font: 0.625rem/1 system-ui, sans-serif; }
footer { margin-top: 1.5rem; padding-top: 0.5rem; border-top: 1px solid #d8d1c7; color: #5c554c;
  font-size: 0.875rem; }
@media (max-width: 30rem) {
  dl { grid-template-columns: minmax(0, 1fr); } dd { margin-bottom: 0.25rem; } }
@media print { body { max-width: none; margin: 0; padding: 0; font-size: 10.5pt; }
  h3 { break-after: avoid; } .verdict, li { break-inside: avoid; } }
"""
STYLE_HASH = f"sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}"
"""The hash of the only style sheet of reports, for a content security policy."""

_POLICY = f"default-src 'none'; style-src '{STYLE_HASH}'"
_SINGLE = re.compile("[\u2018-\u201b]")
_DOUBLE = re.compile("[\u201c-\u201f]")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def as_page(report: DatedReport) -> str:
    """The report as a complete page of HTML, with its data as JSON in it."""
    verdict = report.verdict
    is_rough = any(passage.rough for passage in verdict.passages)
    dotted = "perhaps marked" if is_rough else "near an uncertain edge"
    edges = edges_in_words(verdict)
    note = f"<p>Dotted underlines: {dotted}. {edges}</p>" if edges else ""
    # No script can end inside it, and nothing runs it.
    data = json.dumps(report.to_dict(), allow_nan=False).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en-GB">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{_HEADLINES[report.outcome]} – report of {report.made:%Y-%m-%d}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>Report on a text</h1>
{_listed(_circumstances(report))}
</header>
<main>
<section class="verdict {report.outcome}">
<h2>{_HEADLINES[report.outcome]}</h2>
{_paragraphs(report.sentences)}
{_listed(_figures(report))}
</section>
{_warnings(verdict)}
<h3>What may be concluded</h3>
{_items(report.possible)}
<h3>What may not be concluded</h3>
{_items(report.impossible)}
<h3>The text</h3>
{note}
<div class="text" dir="auto">{"".join(_text(report))}</div>
</main>
<footer>
<p>Made by HammingMark {__version__}, a detector of statistical watermarks. This report is not
signed: whoever has the file can change it. To check it, have a text with the same SHA-256 judged
again. The page contains the verdict as JSON, too.</p>
</footer>
<script type="application/json" id="report">{data}</script>
</body>
</html>
"""


def _circumstances(report: DatedReport) -> list[tuple[str, str]]:
    judge, utc = report.judge, report.made.astimezone(timezone.utc)
    rows = [
        ("Judged", f"{utc:%Y-%m-%d %H:%M:%S} UTC"),
        ("Local time", f"{report.made:%Y-%m-%d %H:%M:%S} {_offset(report)}"),
        ("Judged by", judge.name or ""),
        ("Contact", ", ".join(part for part in (judge.contact, judge.url) if part)),
        ("SHA-256 of the text", report.sha256),
        ("Length of the text", f"{len(report.text):,} characters"),
    ]
    return [row for row in rows if row[1]]


def _offset(report: DatedReport) -> str:
    zone = f"{report.made:%z}"
    return f"(UTC{zone[:3]}:{zone[3:5]})"


def _figures(report: DatedReport) -> list[tuple[str, str]]:
    verdict = report.verdict
    name = f"{report.key_name} ({verdict.key_id})" if report.key_name else str(verdict.key_id)
    rows = []
    if verdict.p_value is not None:
        whole = "p-value of the whole text" if _parts(verdict) else "p-value"
        decides = "" if verdict.threshold is None else " (did not decide)"
        rows.append((whole + decides, _p_value(verdict.p_value)))
    rows += [
        (f"p-value of passage {number}", f"{_p_value(passage.p_value)} "
         f"({passage_in_words(verdict, passage)})")
        for number, passage in _parts(verdict)
    ]  # fmt: skip
    if verdict.threshold is None:
        rows.append(("Level (false alarms allowed)", f"{100 * verdict.level:g} %"))
    else:
        rows.append(("Threshold", f"{verdict.threshold:.3f}"))
    # Of several keys one is always nearest; that is no finding, and would look like one.
    if verdict.key_id and (report.outcome in ("found", "part") or verdict.keys == 1):
        rows.append(("Key", name))
        if verdict.label:
            rows.append(("Label", verdict.label))
    rows.append(("Keys searched", f"{verdict.keys:,}"))
    if verdict.method:
        rows.append(("Method", verdict.method))
    if verdict.p_value is not None and verdict.null:
        rows.append(("Test", f"{verdict.statistic}, {verdict.null}"))
    if verdict.edits:
        rows.append(("Edited text", "joined and split sentences were allowed for"))
    return rows


def _parts(verdict: Verdict) -> list[tuple[int, Passage]]:
    """The passages with their numbers, but for one that is the whole text: all is said of it."""
    return [
        (number, passage)
        for number, passage in enumerate(verdict.passages, start=1)
        if passage.rough or passage.end - passage.begin < len(verdict.pieces)
    ]


def _p_value(p_value: float) -> str:
    """As on the page (``server/web/words.js``): ``0.0003``, ``5 × 10⁻⁸``."""
    digits, _, power = format_p_value(p_value).partition("e-")
    return f"{digits} × 10⁻{str(int(power)).translate(_RAISED)}" if power else digits


def _warnings(verdict: Verdict) -> str:
    if not verdict.warnings:
        return ""
    return f"<h3>Warnings</h3>{_items(warning.message for warning in verdict.warnings)}"


def _text(report: DatedReport) -> Iterator[str]:
    """The text with a frame around each marked passage, and the numbers of its sentences."""
    verdict = report.verdict
    has_tokens = verdict.evidence.unit == "token"
    gaps, shown = _tokens(verdict) if has_tokens else _aligned(verdict.pieces, report.text)
    owner: int | None = None
    for i, piece in enumerate(shown):
        inside = [k for k, each in enumerate(verdict.passages) if each.begin <= i < each.end]
        now = min(inside) if inside else None
        gap = gaps[i]
        if now != owner:
            yield (_escaped(gap.rstrip()) + "</div>") if owner is not None else _escaped(gap)
            gap = ""
            if now is not None:
                passage = verdict.passages[now]
                name = f"Marked passage {now + 1}: {passage_in_words(verdict, passage)}"
                yield f'<div class="passage"><span class="name">{name}</span>'
            owner = now
        number = "" if has_tokens else f"<sup>{i + 1}</sup>"
        edge = now is not None and is_near_edge(verdict, verdict.passages[now], i)
        markup = f'<span class="edge">{_escaped(piece)}</span>' if edge else _escaped(piece)
        yield _escaped(gap) + number + markup
    if owner is not None:
        yield "</div>"
    yield _escaped(gaps[-1])


def _tokens(verdict: Verdict) -> tuple[list[str], list[str]]:
    return [""] * (len(verdict.pieces) + 1), list(verdict.pieces)


def _aligned(pieces: tuple[str, ...], source: str) -> tuple[list[str], list[str]]:
    """The pieces as they stand in the source, and what stands before each and after the last.

    A splitter joins wrapped lines and respells quotes and look-alikes of letters, so pieces are
    sought by their visible characters, as on the page (``server/web/alignment.js``). Where one is
    not found, the pieces are put one after another.
    """
    text = unicodedata.normalize("NFC", source)
    ink, places = _ink(text)
    gaps, shown, seen, end = [], [], 0, 0
    for piece in pieces:
        sought, _ = _ink(unicodedata.normalize("NFC", piece))
        at = _find(sought, ink, seen) if sought else -1
        if at < 0:
            return ["", *[" "] * (len(pieces) - 1), ""][: len(pieces) + 1], list(pieces)
        begin = places[at]
        gaps.append(text[end:begin])
        end = places[at + len(sought) - 1] + 1
        shown.append(text[begin:end])
        seen = at + len(sought)
    return [*gaps, text[end:]], shown


def _find(sought: str, ink: str, begin: int) -> int:
    """Where a piece begins in a text, in which its letters may be look-alikes; -1 if nowhere."""
    at = ink.find(sought, begin)
    if at >= 0 or ink.isascii():
        return at
    spelled = (
        f"[{char}\u0250-\U0010ffff]" if char.isalpha() and char < "\u0250" else re.escape(char)
        for char in sought
    )
    match = re.compile("".join(spelled)).search(ink, begin)
    return match.start() if match else -1


def _ink(text: str) -> tuple[str, list[int]]:
    """The visible characters of a text, and where each of them stands."""
    even = _DOUBLE.sub('"', _SINGLE.sub("'", text))
    kept = [
        (plain, i)
        for i, char in enumerate(even)
        if not (char.isspace() or char == ">" or _is_unseen(char))
        for plain in _plain(char)
    ]
    return "".join(char for char, _ in kept), [i for _, i in kept]


def _plain(char: str) -> str:
    """The plain characters that Unicode knows for a character, or the character itself."""
    plain = unicodedata.normalize("NFKC", char)
    return plain if plain.isascii() else char


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf") or "\ufe00" <= char <= "\ufe0f"


def _listed(rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<dt>{_escaped(name)}</dt><dd>{_escaped(value)}</dd>" for name, value in rows)
    return f"<dl>{cells}</dl>"


def _paragraphs(sentences: list[str]) -> str:
    return "".join(f"<p>{_escaped(sentence)}</p>" for sentence in sentences)


def _items(sentences: Iterator[str] | tuple[str, ...]) -> str:
    return f"<ul>{''.join(f'<li>{_escaped(each)}</li>' for each in sentences)}</ul>"


def _escaped(text: str) -> str:
    return html.escape(text)
