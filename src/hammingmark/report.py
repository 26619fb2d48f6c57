"""A verdict for a person to read, as text and as HTML. Imports nothing but its words."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hammingmark.records import Evidence, Passage, Transition, Verdict

_HEADLINES = {True: "WATERMARKED", False: "NO WATERMARK FOUND", None: "CANNOT TELL"}


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
    """Verdict in words, the figures, and a line for each sentence with its match bar."""
    lines = [f"{_HEADLINES[verdict.watermarked]}. {verdict.reason}"]
    lines += [f"  {name:<12} {value}" for name, value in _figures(verdict)]
    lines += [f"  passage      {_passage(passage)}" for passage in verdict.passages]
    if sentences and verdict.sentences:
        lines.append("")
        bits = verdict.evidence.bits
        scores = [f"{each.score:.3g}" for each in verdict.evidence.transitions]
        wide = max([2, *map(len, scores)])
        room = max(20, width - bits - 20 - wide)
        for i, sentence in enumerate(verdict.sentences):
            mark = "┃" if _inside(verdict, i) else " "
            shown = sentence if len(sentence) <= room else sentence[: room - 1] + "…"
            if i == 0:
                lines.append(f" {mark}{i + 1:>5} {'':<{bits + 10 + wide + len(str(bits))}} {shown}")
                continue
            transition = verdict.evidence.transitions[i - 1]
            filled = round(transition.score)
            bar = "█" * filled + "·" * (bits - filled)
            tick = "✓" if transition.valid else " "
            lines.append(
                f" {mark}{i + 1:>5} {bar} {scores[i - 1]:>{wide}}/{bits} {tick} "
                f"{transition.cosine:5.2f} {shown}"[: width + 2]
            )
    return "\n".join(lines)


def as_html(verdict: Verdict) -> str:
    """The same as a fragment of HTML, for notebooks and pages."""
    colour = {True: "#9a3412", False: "#166534", None: "#52525b"}[verdict.watermarked]
    head = _html_head() if verdict.sentences else ""
    rows = "".join(_html_row(verdict, i, sentence) for i, sentence in enumerate(verdict.sentences))
    figures = "".join(
        f"<tr><td style='text-align:left'>{html.escape(name)}</td>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in [
            *_figures(verdict),
            *(("passage", _passage(passage)) for passage in verdict.passages),
        ]
    )
    return (
        "<div class='hammingmark'>"
        f"<p><strong style='color:{colour}'>{_HEADLINES[verdict.watermarked]}</strong> "
        f"{html.escape(verdict.reason)}</p>"
        f"<table>{figures}</table>"
        f"<table style='border-collapse:collapse'>{head}<tbody>{rows}</tbody></table></div>"
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
                f"{verdict.p_value:.3g} ({verdict.statistic}, exact over "
                f"{verdict.references:,} reference keys{searched})",
            )
        )
    if verdict.power is not None and not verdict.watermarked:
        figures.append(
            (
                "power",
                f"about {verdict.power:.0%} of marked and edited texts like this one "
                "would be found",
            )
        )
    if verdict.tail_estimate is not None:
        figures.append(("tail", f"about {verdict.tail_estimate:.1g} (an estimate, not a test)"))
    if evidence.edge_vote is not None and evidence.global_bits is not None:
        valid = sum(transition.valid for transition in evidence.transitions)
        figures.append(
            ("edge vote", f"{evidence.edge_vote:.3f} ({valid} of {len(evidence.transitions)})")
        )
        figures.append(("global bits", f"{evidence.global_bits:.3f}"))
        figures.append(("likelihood", f"{evidence.likelihood:+.2f}, margin {evidence.margin:+.2f}"))
    if verdict.key_id:
        figures.append(("key", verdict.key_id))
    return figures


def _passage(passage: Passage) -> str:
    return f"sentences {passage.begin + 1} to {passage.end}, p = {passage.p_value:.3g}"


def _inside(verdict: Verdict, i: int) -> bool:
    return any(passage.begin <= i < passage.end for passage in verdict.passages)


def _html_head() -> str:
    heads = ("", "bits that agree", "score", "sentence")
    cells = "".join(f"<th scope='col' style='text-align:left'>{head}</th>" for head in heads)
    return f"<thead><tr style='border-left:3px solid transparent'>{cells}</tr></thead>"


def _html_row(verdict: Verdict, i: int, sentence: str) -> str:
    edge = "3px solid #ea580c" if _inside(verdict, i) else "3px solid transparent"
    cells = "<td></td><td></td>"
    if i:
        cells = _html_bar(verdict.evidence, verdict.evidence.transitions[i - 1])
    return (
        f"<tr style='border-left:{edge}'><td>{i + 1}</td>{cells}"
        f"<td style='text-align:left'>{html.escape(sentence)}</td></tr>"
    )


def _html_bar(evidence: Evidence, transition: Transition) -> str:
    bits, wanted = evidence.bits, evidence.threshold
    share = round(100 * transition.score / bits)
    colour = "#ea580c" if transition.valid else "#a1a1aa"
    place = f"left:{100 * wanted / bits:.1f}%"
    said = f"cosine {transition.cosine:.2f}, {wanted:g} of {bits} are required"
    return (
        f"<td title='{said}'><div style='position:relative;width:64px;background:#e4e4e7'>"
        f"<div style='width:{share}%;background:{colour}'>&nbsp;</div>"
        f"<div class='tick' style='position:absolute;top:0;bottom:0;{place};width:2px;"
        "background:#18181b'></div></div></td>"
        f"<td title='{said}'>{transition.score:.3g}/{bits}</td>"
    )


def as_json(verdict: Verdict, *, source: str) -> dict[str, object]:
    """The same as plain data, for machines."""
    evidence = verdict.evidence
    return {
        "source": source,
        "sentences": len(verdict.sentences),
        "p_value": verdict.p_value,
        "watermarked": verdict.watermarked,
        "reason": verdict.reason,
        "level": verdict.level,
        "statistic": verdict.statistic,
        "edits": verdict.edits,
        "edge_vote": evidence.edge_vote,
        "global_bits": evidence.global_bits,
        "soft": evidence.soft,
        "likelihood": evidence.likelihood,
        "margin": evidence.margin,
        "key_id": verdict.key_id,
        "keys": verdict.keys,
        "references": verdict.references,
        "attainable_p_value": verdict.attainable,
        "power": verdict.power,
        "tail_estimate": verdict.tail_estimate,
        "threshold": verdict.threshold,
        "passages": [
            {"begin": passage.begin, "end": passage.end, "p_value": passage.p_value}
            for passage in verdict.passages
        ],
        "transitions": [
            {
                "match": each.match,
                "score": round(each.score, 6),
                "cosine": round(each.cosine, 6),
                "valid": each.valid,
            }
            for each in evidence.transitions
        ],
    }
