"""A verdict as readable text and as HTML."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hammingmark.records import Evidence, Passage, UnitScore, Verdict

_EXACT = Context(prec=60)  # any two digits of a double
_LONGEST_BAR = 24  # characters
_DEVIATES = 4.0  # standard deviations that fill a bar
_HEADLINES = {True: "WATERMARKED", False: "NO WATERMARK FOUND", None: "CANNOT TELL"}
_WEAK = "WEAK EVIDENCE"
_OF_THE_WHOLE = {False: "NOT THE WHOLE TEXT", None: "CANNOT TELL ABOUT THE WHOLE TEXT"}
"""The headlines if a passage is watermarked and the text as a whole is not."""
_EDGE = {"sentence": 3, "token": 20}
"""How far an edge of a passage may be off: about 87 edges in 100 are no further from the true one
(``tests/statistical/test_passage_edges.py``; of tokens, fewer)."""
_NO_SECRET = "Its method has no secret: anyone can compute this score, and p is not exact."


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


def format_p_value(p_value: float) -> str:
    """A p-value with two significant digits, rounded up: ``0.00026``, ``5.2e-08``.

    Rounded up, it is never shown smaller than it is, nor on the wrong side of a level of two
    digits. The page rounds alike (``server/web/words.js``).
    """
    digits = Decimal(repr(p_value))  # the shortest that denotes the number; 0.01 stays 0.01
    if digits:
        digits = digits.quantize(
            Decimal(1).scaleb(digits.adjusted() - 1), rounding=ROUND_CEILING, context=_EXACT
        )
    return f"{float(digits):.2g}"


def of_a_hundred(share: float) -> str:
    """A share as a number of cases: ``about 42 of 100``. It is never told as none or all."""
    cases = round(100.0 * share)
    if cases < 1:
        return "fewer than 1 of 100"
    return "more than 99 of 100" if cases > 99 else f"about {cases} of 100"


def times(ratio: float) -> str:
    """A likelihood ratio in words: ``about 5 times``."""
    return f"about {ratio:.1f} times" if ratio < 9.95 else f"about {ratio:.0f} times"


def power_in_words(verdict: Verdict) -> str:
    """How often marked texts like this one would be found, and what that assumes, as sentences."""
    if verdict.power_as_written is None:
        return ""
    sentence = (
        f"If {_chosen_pieces(verdict)} of it had been chosen with the key and left as it was, "
        f"{of_a_hundred(verdict.power_as_written)} such texts would be found"
    )
    if verdict.power_reworded is not None:
        sentence += f"; if it had been reworded, {of_a_hundred(verdict.power_reworded)}"
    sentence += "."
    if verdict.detectable_passage is not None:
        pieces = counted(verdict.detectable_passage, _piece(verdict))
        sentence += (
            f" A marked passage of about {pieces} or more, left as it was, would probably be found."
        )
    return sentence


def caveat_in_words(verdict: Verdict) -> str:
    """What a p-value is worth that is not exact, as a sentence; empty if it is exact."""
    return "" if verdict.exact else _NO_SECRET


def is_power_unknown(verdict: Verdict) -> bool:
    """Whether there is no verdict because nobody knows how often marked text would be found.

    Otherwise a text without a verdict is too short for one.
    """
    is_one_sentence = len(verdict.pieces) < 2 and not _has_tokens(verdict)
    return (
        verdict.watermarked is None
        and not is_one_sentence
        and verdict.likelihood_ratio is None
        and verdict.power_as_written is None
        and verdict.attainable <= verdict.level
    )


def as_text(verdict: Verdict, *, width: int = 100, sentences: bool = True) -> str:
    """The verdict, its figures, and a line with a bar for each sentence, or the marked tokens."""
    lines = [f"{_headline(verdict)}. {verdict.reason}"]
    lines += [f"  {name:<12} {value}" for name, value in _figures(verdict)]
    lines += [f"  passage      {_passage(verdict, passage)}" for passage in verdict.passages]
    lines += [f"  warning      {warning.message}" for warning in verdict.warnings]
    if sentences and verdict.pieces:
        lines += [f"  {name:<12} {value}" for name, value in _remarks(verdict)]
        lines.append("")
        lines += _tokens(verdict, width) if _has_tokens(verdict) else _rows(verdict, width)
    return "\n".join(lines)


def _headline(verdict: Verdict) -> str:
    """The headline of a verdict."""
    if verdict.likelihood_ratio is not None:
        return _WEAK
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
        mark = "┊" if _at_edge(verdict, i) else "┃" if _inside(verdict, i) else " "
        text = _shortened(on_one_line(piece), text_width)
        if i < unscored:
            blank = " " * (bar_width + 9 + score_width + len(denominator))
            yield f" {mark}{i + 1:>5} {blank} {text}"
            continue
        unit = evidence.scores[i - unscored]
        filled = round(bar_width * _share(unit.score, largest))
        is_shown = _is_evidence(verdict, i)
        bar = ("█" if is_shown else "░") * filled + "·" * (bar_width - filled)
        tick = "✓" if unit.valid and is_shown else " "
        cosine = unit.details.get("cosine")
        cosine_column = f"{cosine:5.2f}" if isinstance(cosine, float) else " " * 5
        score = f"{scores[i - unscored]:>{score_width}}{denominator}"
        yield f" {mark}{i + 1:>5} {bar} {score} {tick} {cosine_column} {text}"


def _shortened(text: str, width: int) -> str:
    """A text cut to so many columns of a terminal."""
    if _columns(text) <= width:
        return text
    shown = ""
    for char in text:
        if _columns(shown) + _columns(char) > width - 1:
            break
        shown += char
    return f"{shown}…"


def _remarks(verdict: Verdict) -> list[tuple[str, str]]:
    """What the lines about sentences or tokens do not say: names and sentences."""
    is_found = verdict.watermarked or verdict.passages
    if is_found or not any(unit.valid for unit in verdict.evidence.scores):
        return []
    pieces = "tokens" if _has_tokens(verdict) else "sentences"
    return [("note", f"some {pieces} of any text score like marked ones; that is no evidence")]


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
        valid = unit is not None and unit.valid and unit.counted and _is_evidence(verdict, i)
        line += text
        marks += ("▔" if valid else " ") * columns
        bracket = ("╌" if _at_edge(verdict, i) else "─" if _inside(verdict, i) else " ") * columns
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


def _piece(verdict: Verdict) -> str:
    """What the text was cut into, in the singular."""
    return "token" if _has_tokens(verdict) else "sentence"


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
            *(("warning", warning.message) for warning in verdict.warnings),
            *_remarks(verdict),
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
        remarks = f"{verdict.statistic}, {_null(verdict)}"
        remarks += f", corrected for {verdict.keys} keys" if verdict.keys > 1 else ""
        excluded = len(verdict.excluded)
        remarks += f", {counted(excluded, 'key')} not searched" if excluded else ""
        remarks += ", allowing for edits" if verdict.edits else ""
        figures.append(("p-value", f"{format_p_value(verdict.p_value)} ({remarks})"))
    figures += _power(verdict)
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


def _power(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """How often marked texts like this one would be found."""
    if verdict.power_as_written is None:
        return
    share = of_a_hundred(verdict.power_as_written)
    chosen = f"had {_chosen_pieces(verdict)} been chosen with the key and left as it was"
    yield "power", f"{share} would be found, {chosen}"
    if verdict.power_reworded is not None:
        yield "if reworded", f"{of_a_hundred(verdict.power_reworded)} would be found"
    if verdict.detectable_passage is not None:
        pieces = counted(verdict.detectable_passage, _piece(verdict))
        yield "in part", f"a marked passage of about {pieces} or more would probably be found"


def _chosen_pieces(verdict: Verdict) -> str:
    """The pieces of which the power assumes that the key chose them."""
    return "every token" if _piece(verdict) == "token" else "every sentence but the first"


def _null(verdict: Verdict) -> str:
    """The description of the null distribution, with the number of reference keys."""
    return verdict.null.replace("reference keys", f"{verdict.references:,} reference keys")


def edge_margin(verdict: Verdict, passage: Passage) -> int:
    """How many pieces each edge of a passage may be off, within the text.

    Each edge of a passage that is told roughly may be anywhere between the two.
    """
    return passage.end - passage.begin if passage.rough else _EDGE[_piece(verdict)]


def is_near_edge(verdict: Verdict, passage: Passage, i: int) -> bool:
    """Whether a piece within a passage may lie outside of the true one.

    Of a passage that is told roughly each may.
    """
    margin = edge_margin(verdict, passage) if passage.rough else _inner_margin(verdict, passage)
    return min(i - passage.begin, passage.end - 1 - i) < margin


def _inner_margin(verdict: Verdict, passage: Passage) -> int:
    """How many pieces at either end of a passage may lie outside of the true one.

    At least one in the middle does not, of three or more.
    """
    return min(edge_margin(verdict, passage), max(1, (passage.end - passage.begin - 1) // 2))


def passage_in_words(verdict: Verdict, passage: Passage) -> str:
    """A passage, counted from 1: ``about sentences 3 to 9``."""
    noun, begin, end = _piece(verdict), passage.begin + 1, passage.end
    run = f"{noun} {begin}" if begin == end else f"{noun}s {begin} to {end}"
    return f"somewhere within {run}" if passage.rough else f"about {run}"


def edges_in_words(verdict: Verdict) -> str:
    """How uncertain the edges of the passages are, as sentences; empty without a passage."""
    if not verdict.passages:
        return ""
    passage, *others = verdict.passages
    noun, margin = _piece(verdict), edge_margin(verdict, passage)
    if passage.rough:
        return (
            "Only the quarters of the text that a marked passage touches are told. It may begin "
            f"and end anywhere within them, and each {noun} there may be anyone’s."
        )
    inner = _inner_margin(verdict, passage)
    begins, ends = passage.begin == 0, passage.end == len(verdict.pieces)
    if others or not (begins or ends):
        name = "A passage" if others else "The passage"
        said = f"{name} may begin and end up to {counted(margin, noun)} earlier or later"
    elif begins and ends:
        said = (
            f"The passage may begin up to {counted(inner, noun)} later, or end up to {inner} "
            "earlier"
        )
    elif begins:
        said = (
            f"The passage may begin up to {counted(inner, noun)} later, and end up to {margin} "
            "earlier or later"
        )
    else:
        said = (
            f"The passage may begin up to {counted(margin, noun)} earlier or later, or end up to "
            f"{inner} earlier"
        )
    return f"{said}, and sometimes more. What stands near an edge may be anyone’s."


def _passage(verdict: Verdict, passage: Passage) -> str:
    name = passage.label or passage.key_id
    is_known = name in (verdict.label or verdict.key_id, None)
    key = "" if is_known else f", {on_one_line(name or '')}"
    p_value = format_p_value(passage.p_value)
    return f"{passage_in_words(verdict, passage)}, p = {p_value}{key}; {_edges(verdict, passage)}"


def _edges(verdict: Verdict, passage: Passage) -> str:
    if passage.rough:
        return "its edges are not told"
    if passage.end - passage.begin == len(verdict.pieces):
        inner = _inner_margin(verdict, passage)
        return f"it may begin up to {inner} later or end up to {inner} earlier"
    return f"each edge may be off by {edge_margin(verdict, passage)}"


def _inside(verdict: Verdict, i: int) -> bool:
    return any(passage.begin <= i < passage.end for passage in verdict.passages)


def _is_evidence(verdict: Verdict, i: int) -> bool:
    """Whether the score of a piece is shown as evidence: only where the watermark was found.

    Elsewhere a high score means nothing: some pieces of any text have one.
    """
    return _inside(verdict, i) if verdict.passages else verdict.watermarked is True


def _at_edge(verdict: Verdict, i: int) -> bool:
    """Whether a piece lies in a passage, but near an edge of it."""
    inside = [passage for passage in verdict.passages if passage.begin <= i < passage.end]
    return bool(inside) and all(is_near_edge(verdict, passage, i) for passage in inside)


def _html_rows(verdict: Verdict) -> str:
    if not verdict.pieces:
        return ""
    titles = ("", "agreement", "score", "sentence")
    cells = "".join(f"<th scope='col' style='text-align:left'>{title}</th>" for title in titles)
    head = f"<thead><tr style='border-left:3px solid transparent'>{cells}</tr></thead>"
    rows = "".join(_html_row(verdict, i, piece) for i, piece in enumerate(verdict.pieces))
    return f"<table style='border-collapse:collapse'>{head}<tbody>{rows}</tbody></table>"


def _html_row(verdict: Verdict, i: int, piece: str) -> str:
    line = "dotted" if _at_edge(verdict, i) else "solid"
    edge = f"3px {line} {'#ea580c' if _inside(verdict, i) else 'transparent'}"
    unscored = len(verdict.pieces) - len(verdict.evidence.scores)
    cells = "<td></td><td></td>"
    if i >= unscored:
        unit = verdict.evidence.scores[i - unscored]
        cells = _html_bar(verdict.evidence, unit, is_shown=_is_evidence(verdict, i))
    return (
        f"<tr style='border-left:{edge}'><td>{i + 1}</td>{cells}"
        f"<td dir='auto' style='text-align:start'>{html.escape(piece)}</td></tr>"
    )


def _html_bar(evidence: Evidence, unit: UnitScore, *, is_shown: bool) -> str:
    denominator, largest = _largest(evidence)
    share = round(100 * _share(unit.score, largest))
    colour = "#ea580c" if unit.valid and is_shown else "#a1a1aa"
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
        is_valid = unit is not None and unit.valid and unit.counted
        # Dark ink on the tint, whatever the colours of the notebook are.
        tint = "#fed7aa;color:#1f1c18" if is_valid and _is_evidence(verdict, i) else "transparent"
        line = "dotted" if _at_edge(verdict, i) else "solid"
        edge = f"border-bottom:2px {line} #ea580c" if _inside(verdict, i) else ""
        title = html.escape(_token_title(evidence, unit) if unit else "not scored")
        spans.append(
            f"<span title='{title}' style='background:{tint};{edge}'>{html.escape(piece)}</span>"
        )
    return f"<p dir='auto' style='white-space:pre-wrap'>{''.join(spans)}</p>"


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
