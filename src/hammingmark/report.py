"""A verdict for a person to read, as text and as HTML. Imports nothing but its words."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hammingmark.records import Evidence, Passage, UnitScore, Verdict

_BAR = 24  # characters of a bar at most
_DEVIATES = 4.0  # standard deviations that fill a bar
_HEADLINES = {True: "WATERMARKED", False: "NO WATERMARK FOUND", None: "CANNOT TELL"}
_OF_THE_WHOLE = {False: "NOT THE WHOLE TEXT", None: "CANNOT TELL ABOUT THE WHOLE TEXT"}
"""In place of these where a passage is watermarked."""


def printable(text: str) -> str:
    """Words from elsewhere, fit for a terminal: what would steer it is spelled out."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def on_one_line(text: str) -> str:
    """The same with line breaks spelled out, where lines mean something."""
    return printable(text).replace("\n", "\\n")


def counted(count: int, noun: str) -> str:
    """A number of things: ``1 text``, ``2 texts``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def as_text(verdict: Verdict, *, width: int = 100, sentences: bool = True) -> str:
    """Verdict in words, the figures, and a line for each sentence with its bar, or the tokens."""
    lines = [f"{_headline(verdict)}. {verdict.reason}"]
    lines += [f"  {name:<12} {value}" for name, value in _figures(verdict)]
    lines += [f"  passage      {_passage(verdict, passage)}" for passage in verdict.passages]
    if sentences and verdict.pieces:
        lines.append("")
        lines += _tokens(verdict, width) if _has_tokens(verdict) else _rows(verdict, width)
    return "\n".join(lines)


def _headline(verdict: Verdict) -> str:
    """The verdict in a word or two, about the whole text where a passage has another."""
    words = {**_HEADLINES, **(_OF_THE_WHOLE if verdict.passages else {})}
    return words[verdict.watermarked]


def _rows(verdict: Verdict, width: int) -> Iterator[str]:
    """A line for each piece, with a bar for its score."""
    evidence = verdict.evidence
    of, largest = _largest(evidence)
    most = max(1, min(_BAR, round(largest)))
    scores = [_shown(each.score, evidence) for each in evidence.scores]
    wide = max([2, *map(len, scores)])
    room = max(20, width - most - 20 - wide)
    before = len(verdict.pieces) - len(scores)
    for i, piece in enumerate(verdict.pieces):
        mark = "┃" if _inside(verdict, i) else " "
        shown = on_one_line(piece if len(piece) <= room else piece[: room - 1] + "…")
        if i < before:
            yield f" {mark}{i + 1:>5} {'':<{most + 9 + wide + len(of)}} {shown}"
            continue
        each = evidence.scores[i - before]
        filled = round(most * _share(each.score, largest))
        bar = "█" * filled + "·" * (most - filled)
        tick = "✓" if each.valid else " "
        cosine = each.details.get("cosine")
        beside = f"{cosine:5.2f}" if isinstance(cosine, float) else " " * 5
        score = f"{scores[i - before]:>{wide}}{of}"
        yield f" {mark}{i + 1:>5} {bar} {score} {tick} {beside} {shown}"[: width + 2]


def _tokens(verdict: Verdict, width: int) -> Iterator[str]:
    """The text itself; below it a mark under each valid piece, a bracket under each passage."""
    before = len(verdict.pieces) - len(verdict.evidence.scores)
    begins = {passage.begin for passage in verdict.passages}
    ends = {passage.end - 1 for passage in verdict.passages}
    line = marks = brackets = ""
    opens = False
    for i, piece in enumerate(verdict.pieces):
        shown = on_one_line(piece)
        columns = _columns(shown)
        if len(marks) + columns > width and line:
            yield from (line, marks, brackets) if brackets.strip() else (line, marks)
            line = marks = brackets = ""
        unit = verdict.evidence.scores[i - before] if i >= before else None
        valid = unit is not None and unit.valid and unit.counted
        line += shown
        marks += ("▔" if valid else " ") * columns
        under = ("─" if _inside(verdict, i) else " ") * columns
        opens |= i in begins
        if opens and under:  # a token in the middle of a character shows nothing
            under, opens = "└" + under[1:], False
        brackets += under
        if i in ends and brackets:
            brackets = brackets[:-1] + "┘"
    if line:
        yield from (line, marks, brackets) if brackets.strip() else (line, marks)


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes: two for each wide character of East Asia."""
    return sum(
        0
        if unicodedata.category(each) in ("Mn", "Me")  # it stands on the one before
        else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


def _has_tokens(verdict: Verdict) -> bool:
    """Whether the pieces are tokens rather than sentences."""
    return verdict.evidence.unit == "token"


def _largest(evidence: Evidence) -> tuple[str, float]:
    """What stands behind a score, and the score that fills a bar."""
    if evidence.max_score is None:
        return "", _DEVIATES
    return f"/{evidence.max_score:g}", evidence.max_score


def _shown(score: float, evidence: Evidence) -> str:
    return f"{score:+.2f}" if evidence.max_score is None else f"{score:.3g}"


def _share(score: float, scale: float) -> float:
    return min(1.0, max(0.0, score / scale)) if scale else 0.0


def as_html(verdict: Verdict) -> str:
    """The same as a fragment of HTML, for notebooks and pages."""
    found = True if verdict.passages else verdict.watermarked
    colour = {True: "#9a3412", False: "#166534", None: "#52525b"}[found]
    body = _html_tokens(verdict) if _has_tokens(verdict) else _html_rows(verdict)
    figures = "".join(
        f"<tr><td style='text-align:left'>{html.escape(name)}</td>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in [
            *_figures(verdict),
            *(("passage", _passage(verdict, passage)) for passage in verdict.passages),
        ]
    )
    return (
        "<div class='hammingmark'>"
        f"<p><strong style='color:{colour}'>{_headline(verdict)}</strong> "
        f"{html.escape(verdict.reason)}</p>"
        f"<table>{figures}</table>"
        f"{body}</div>"
    )


def _figures(verdict: Verdict) -> list[tuple[str, str]]:
    evidence = verdict.evidence
    figures = []
    if verdict.p_value is not None:
        searched = f", corrected for {verdict.keys} keys" if verdict.keys > 1 else ""
        searched += ", edits allowed for" if verdict.edits else ""
        figures.append(
            (
                "p-value",
                f"{verdict.p_value:.3g} ({verdict.statistic}, {_null(verdict)}{searched})",
            )
        )
    if verdict.power is not None and not verdict.watermarked:
        figures.append(
            (
                "power",
                f"about {verdict.power:.0%} of marked texts like this one would be found",
            )
        )
    if verdict.tail_estimate is not None:
        figures.append(("tail", f"about {verdict.tail_estimate:.1g} (an estimate, not a test)"))
    if evidence.scores:
        units = counted(len(evidence.scores) - evidence.repeated, evidence.unit)
        again = f"; {evidence.repeated:,} repeated, not counted" if evidence.repeated else ""
        figures.append(("valid", f"{evidence.valid} of {units}{again}"))
        shown = {name: f"{value:.3f}" for name, value in evidence.means.items()}
        shown |= {name: f"{value:+.2f}" for name, value in evidence.sums.items()}
        if verdict.statistic in evidence.z:
            shown["z"] = f"{evidence.z[verdict.statistic]:+.2f}"
        figures += [(name.replace("_", " "), value) for name, value in shown.items()]
    label = f", label {on_one_line(verdict.label)}" if verdict.label else ""
    found = verdict.watermarked or verdict.passages or verdict.keys == 1
    if verdict.key_id:
        # Of several keys one is always nearest; that is no finding.
        figures.append(("key" if found else "nearest key", f"{verdict.key_id}{label}"))
    return figures


def _null(verdict: Verdict) -> str:
    """How the null distribution is known, with the number of draws that were counted."""
    return verdict.null.replace("reference keys", f"{verdict.references:,} reference keys")


def _passage(verdict: Verdict, passage: Passage) -> str:
    pieces = "tokens" if _has_tokens(verdict) else "sentences"
    other = passage.label or passage.key_id
    known = (verdict.label or verdict.key_id, None)
    whose = "" if other in known else f", {on_one_line(other or '')}"
    return f"{pieces} {passage.begin + 1} to {passage.end}, p = {passage.p_value:.3g}{whose}"


def _inside(verdict: Verdict, i: int) -> bool:
    return any(passage.begin <= i < passage.end for passage in verdict.passages)


def _html_rows(verdict: Verdict) -> str:
    if not verdict.pieces:
        return ""
    heads = ("", "agreement", "score", "sentence")
    cells = "".join(f"<th scope='col' style='text-align:left'>{head}</th>" for head in heads)
    head = f"<thead><tr style='border-left:3px solid transparent'>{cells}</tr></thead>"
    rows = "".join(_html_row(verdict, i, piece) for i, piece in enumerate(verdict.pieces))
    return f"<table style='border-collapse:collapse'>{head}<tbody>{rows}</tbody></table>"


def _html_row(verdict: Verdict, i: int, piece: str) -> str:
    edge = "3px solid #ea580c" if _inside(verdict, i) else "3px solid transparent"
    before = len(verdict.pieces) - len(verdict.evidence.scores)
    cells = "<td></td><td></td>"
    if i >= before:
        cells = _html_bar(verdict.evidence, verdict.evidence.scores[i - before])
    return (
        f"<tr style='border-left:{edge}'><td>{i + 1}</td>{cells}"
        f"<td style='text-align:left'>{html.escape(piece)}</td></tr>"
    )


def _html_bar(evidence: Evidence, unit: UnitScore) -> str:
    of, largest = _largest(evidence)
    share = round(100 * _share(unit.score, largest))
    colour = "#ea580c" if unit.valid else "#a1a1aa"
    place = f"left:{100 * _share(evidence.threshold, largest):.1f}%"
    said = _said(evidence, unit)
    return (
        f"<td title='{said}'><div style='position:relative;width:64px;background:#e4e4e7'>"
        f"<div style='width:{share}%;background:{colour}'>&nbsp;</div>"
        f"<div class='tick' style='position:absolute;top:0;bottom:0;{place};width:2px;"
        "background:#18181b'></div></div></td>"
        f"<td title='{said}'>{_shown(unit.score, evidence)}{of}</td>"
    )


def _html_tokens(verdict: Verdict) -> str:
    """The text, its valid tokens tinted."""
    evidence = verdict.evidence
    before = len(verdict.pieces) - len(evidence.scores)
    spans = []
    for i, piece in enumerate(verdict.pieces):
        unit = evidence.scores[i - before] if i >= before else None
        colour = "#fed7aa" if unit and unit.valid and unit.counted else "transparent"
        edge = "border-bottom:2px solid #ea580c" if _inside(verdict, i) else ""
        said = html.escape(_words_of_token(evidence, unit) if unit else "not scored")
        spans.append(
            f"<span title='{said}' style='background:{colour};{edge}'>{html.escape(piece)}</span>"
        )
    return f"<p style='white-space:pre-wrap'>{''.join(spans)}</p>"


def _words_of_token(evidence: Evidence, unit: UnitScore) -> str:
    """A token's figures in words, and whether it counts."""
    if not unit.counted:
        return "repeated, not counted"
    details = _details(unit)
    return f"{details}score {unit.score:.3g}, at least {evidence.threshold:.3g} counts as evidence"


def _details(unit: UnitScore) -> str:
    """The further figures of a unit, with a comma behind each."""
    return "".join(
        f"{name} {value if isinstance(value, str) else format(value, '.3g')}, "
        for name, value in unit.details.items()
    )


def _said(evidence: Evidence, unit: UnitScore) -> str:
    """A unit's figures in words."""
    details = _details(unit)
    if evidence.max_score is None:
        return html.escape(f"{details}at least {evidence.threshold:.2f} is required")
    return html.escape(f"{details}{evidence.threshold:g} of {evidence.max_score:g} are required")
