"""A verdict as readable text and as HTML."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hammingmark.records import Evidence, Passage, UnitScore, Verdict

_LONGEST_BAR = 24  # characters
_DEVIATES = 4.0  # standard deviations that fill a bar
_HEADLINES = {True: "WATERMARKED", False: "NO WATERMARK FOUND", None: "CANNOT TELL"}
_OF_THE_WHOLE = {False: "NOT THE WHOLE TEXT", None: "CANNOT TELL ABOUT THE WHOLE TEXT"}
"""The headlines if a passage is watermarked and the text as a whole is not."""


def printable(text: str) -> str:
    """Text from outside, with control characters escaped so that it is safe on a terminal."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def on_one_line(text: str) -> str:
    """Like `printable`, with line breaks escaped as well."""
    return printable(text).replace("\n", "\\n")


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 text``, ``2 texts``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def as_text(verdict: Verdict, *, width: int = 100, sentences: bool = True) -> str:
    """The verdict, its figures, and a line with a bar for each sentence, or the marked tokens."""
    lines = [f"{_headline(verdict)}. {verdict.reason}"]
    lines += [f"  {name:<12} {value}" for name, value in _figures(verdict)]
    lines += [f"  passage      {_passage(verdict, passage)}" for passage in verdict.passages]
    if sentences and verdict.pieces:
        lines.append("")
        lines += _tokens(verdict, width) if _has_tokens(verdict) else _rows(verdict, width)
    return "\n".join(lines)


def _headline(verdict: Verdict) -> str:
    """The headline of a verdict."""
    headlines = {**_HEADLINES, **(_OF_THE_WHOLE if verdict.passages else {})}
    return headlines[verdict.watermarked]


def _rows(verdict: Verdict, width: int) -> Iterator[str]:
    """A line for each piece, with a bar for its score."""
    evidence = verdict.evidence
    denominator, largest = _largest(evidence)
    bar_width = max(1, min(_LONGEST_BAR, round(largest)))
    scores = [_as_number(unit.score, evidence) for unit in evidence.scores]
    score_width = max([2, *map(len, scores)])
    text_width = max(20, width - bar_width - 20 - score_width)
    unscored = len(verdict.pieces) - len(scores)
    for i, piece in enumerate(verdict.pieces):
        mark = "┃" if _inside(verdict, i) else " "
        text = on_one_line(piece if len(piece) <= text_width else piece[: text_width - 1] + "…")
        if i < unscored:
            blank = " " * (bar_width + 9 + score_width + len(denominator))
            yield f" {mark}{i + 1:>5} {blank} {text}"
            continue
        unit = evidence.scores[i - unscored]
        filled = round(bar_width * _share(unit.score, largest))
        bar = "█" * filled + "·" * (bar_width - filled)
        tick = "✓" if unit.valid else " "
        cosine = unit.details.get("cosine")
        cosine_column = f"{cosine:5.2f}" if isinstance(cosine, float) else " " * 5
        score = f"{scores[i - unscored]:>{score_width}}{denominator}"
        yield f" {mark}{i + 1:>5} {bar} {score} {tick} {cosine_column} {text}"[: width + 2]


def _tokens(verdict: Verdict, width: int) -> Iterator[str]:
    """The text, with a mark below each valid piece and a bracket below each passage."""
    unscored = len(verdict.pieces) - len(verdict.evidence.scores)
    begins = {passage.begin for passage in verdict.passages}
    ends = {passage.end - 1 for passage in verdict.passages}
    line = marks = brackets = ""
    is_opening = False
    for i, piece in enumerate(verdict.pieces):
        text = on_one_line(piece)
        columns = _columns(text)
        if len(marks) + columns > width and line:
            yield from (line, marks, brackets) if brackets.strip() else (line, marks)
            line = marks = brackets = ""
        unit = verdict.evidence.scores[i - unscored] if i >= unscored else None
        valid = unit is not None and unit.valid and unit.counted
        line += text
        marks += ("▔" if valid else " ") * columns
        bracket = ("─" if _inside(verdict, i) else " ") * columns
        is_opening |= i in begins
        if is_opening and bracket:  # a token inside a character has no column
            bracket, is_opening = "└" + bracket[1:], False
        brackets += bracket
        if i in ends and brackets:
            brackets = brackets[:-1] + "┘"
    if line:
        yield from (line, marks, brackets) if brackets.strip() else (line, marks)


def _columns(text: str) -> int:
    """The width of a text on a terminal: two columns for each wide East Asian character."""
    return sum(
        0
        if unicodedata.category(char) in ("Mn", "Me")  # it is drawn on the previous character
        else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def _has_tokens(verdict: Verdict) -> bool:
    """Whether the pieces are tokens rather than sentences."""
    return verdict.evidence.unit == "token"


def _largest(evidence: Evidence) -> tuple[str, float]:
    """The denominator after a score, and the score that fills a bar."""
    if evidence.max_score is None:
        return "", _DEVIATES
    return f"/{evidence.max_score:g}", evidence.max_score


def _as_number(score: float, evidence: Evidence) -> str:
    return f"{score:+.2f}" if evidence.max_score is None else f"{score:.3g}"


def _share(score: float, largest: float) -> float:
    return min(1.0, max(0.0, score / largest)) if largest else 0.0


def as_html(verdict: Verdict) -> str:
    """The verdict as a fragment of HTML, for notebooks and pages."""
    is_marked = True if verdict.passages else verdict.watermarked
    colour = {True: "#9a3412", False: "#166534", None: "#52525b"}[is_marked]
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
        remarks = f", corrected for {verdict.keys} keys" if verdict.keys > 1 else ""
        remarks += ", allowing for edits" if verdict.edits else ""
        figures.append(
            (
                "p-value",
                f"{verdict.p_value:.3g} ({verdict.statistic}, {_null(verdict)}{remarks})",
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
        repeated = f"; {evidence.repeated:,} repeated, not counted" if evidence.repeated else ""
        figures.append(("valid", f"{evidence.valid} of {units}{repeated}"))
        statistics = {name: f"{value:.3f}" for name, value in evidence.means.items()}
        statistics |= {name: f"{value:+.2f}" for name, value in evidence.sums.items()}
        if verdict.statistic in evidence.z:
            statistics["z"] = f"{evidence.z[verdict.statistic]:+.2f}"
        figures += [(name.replace("_", " "), value) for name, value in statistics.items()]
    label = f", label {on_one_line(verdict.label)}" if verdict.label else ""
    is_detected = verdict.watermarked or verdict.passages or verdict.keys == 1
    if verdict.key_id:
        # One of several keys is always nearest, which proves nothing.
        figures.append(("key" if is_detected else "nearest key", f"{verdict.key_id}{label}"))
    return figures


def _null(verdict: Verdict) -> str:
    """The description of the null distribution, with the number of reference keys."""
    return verdict.null.replace("reference keys", f"{verdict.references:,} reference keys")


def _passage(verdict: Verdict, passage: Passage) -> str:
    pieces = "tokens" if _has_tokens(verdict) else "sentences"
    name = passage.label or passage.key_id
    is_known = name in (verdict.label or verdict.key_id, None)
    key = "" if is_known else f", {on_one_line(name or '')}"
    return f"{pieces} {passage.begin + 1} to {passage.end}, p = {passage.p_value:.3g}{key}"


def _inside(verdict: Verdict, i: int) -> bool:
    return any(passage.begin <= i < passage.end for passage in verdict.passages)


def _html_rows(verdict: Verdict) -> str:
    if not verdict.pieces:
        return ""
    titles = ("", "agreement", "score", "sentence")
    cells = "".join(f"<th scope='col' style='text-align:left'>{title}</th>" for title in titles)
    head = f"<thead><tr style='border-left:3px solid transparent'>{cells}</tr></thead>"
    rows = "".join(_html_row(verdict, i, piece) for i, piece in enumerate(verdict.pieces))
    return f"<table style='border-collapse:collapse'>{head}<tbody>{rows}</tbody></table>"


def _html_row(verdict: Verdict, i: int, piece: str) -> str:
    edge = "3px solid #ea580c" if _inside(verdict, i) else "3px solid transparent"
    unscored = len(verdict.pieces) - len(verdict.evidence.scores)
    cells = "<td></td><td></td>"
    if i >= unscored:
        cells = _html_bar(verdict.evidence, verdict.evidence.scores[i - unscored])
    return (
        f"<tr style='border-left:{edge}'><td>{i + 1}</td>{cells}"
        f"<td style='text-align:left'>{html.escape(piece)}</td></tr>"
    )


def _html_bar(evidence: Evidence, unit: UnitScore) -> str:
    denominator, largest = _largest(evidence)
    share = round(100 * _share(unit.score, largest))
    colour = "#ea580c" if unit.valid else "#a1a1aa"
    position = f"left:{100 * _share(evidence.threshold, largest):.1f}%"
    title = _sentence_title(evidence, unit)
    return (
        f"<td title='{title}'><div style='position:relative;width:64px;background:#e4e4e7'>"
        f"<div style='width:{share}%;background:{colour}'>&nbsp;</div>"
        f"<div class='tick' style='position:absolute;top:0;bottom:0;{position};width:2px;"
        "background:#18181b'></div></div></td>"
        f"<td title='{title}'>{_as_number(unit.score, evidence)}{denominator}</td>"
    )


def _html_tokens(verdict: Verdict) -> str:
    """The text, with its valid tokens coloured."""
    evidence = verdict.evidence
    unscored = len(verdict.pieces) - len(evidence.scores)
    spans = []
    for i, piece in enumerate(verdict.pieces):
        unit = evidence.scores[i - unscored] if i >= unscored else None
        colour = "#fed7aa" if unit and unit.valid and unit.counted else "transparent"
        edge = "border-bottom:2px solid #ea580c" if _inside(verdict, i) else ""
        title = html.escape(_token_title(evidence, unit) if unit else "not scored")
        spans.append(
            f"<span title='{title}' style='background:{colour};{edge}'>{html.escape(piece)}</span>"
        )
    return f"<p style='white-space:pre-wrap'>{''.join(spans)}</p>"


def _token_title(evidence: Evidence, unit: UnitScore) -> str:
    """The figures of a token, and whether it counts."""
    if not unit.counted:
        return "repeated, not counted"
    details = _details(unit)
    return f"{details}score {unit.score:.3g}, at least {evidence.threshold:.3g} counts as evidence"


def _details(unit: UnitScore) -> str:
    """The details of a unit, each followed by a comma."""
    return "".join(
        f"{name} {value if isinstance(value, str) else format(value, '.3g')}, "
        for name, value in unit.details.items()
    )


def _sentence_title(evidence: Evidence, unit: UnitScore) -> str:
    """The figures of a sentence."""
    details = _details(unit)
    if evidence.max_score is None:
        return html.escape(f"{details}at least {evidence.threshold:.2f} is required")
    return html.escape(f"{details}{evidence.threshold:g} of {evidence.max_score:g} are required")
