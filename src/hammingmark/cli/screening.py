"""What the verdicts of `detect` on many texts say together, as lines and as a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from hammingmark.cli.outputs import write_output
from hammingmark.records import Correction, CorrectionName, Screening
from hammingmark.reports.text import counted, format_p_value, on_one_line
from hammingmark.serialization import screening_to_dict

_NAMES: dict[CorrectionName, str] = {
    "holm": "Holm",
    "benjamini-yekutieli": "Benjamini-Yekutieli",
    "benjamini-hochberg": "Benjamini-Hochberg",
}
_MEANINGS: dict[CorrectionName, str] = {
    "holm": "the probability that any unmarked text stands is at most {rate:g}",
    "benjamini-yekutieli": "on average a share of at most {rate:g} of them is unmarked",
    "benjamini-hochberg": "the same, if the p-values are independent, as under a key for each text",
}
_FEWEST = 2  # texts with a p-value


def show_screening(screening: Screening, *, shared_once: bool) -> None:
    """Print the summary to standard error, if there are several texts with a p-value.

    Args:
        screening: the summary.
        shared_once: whether shared sentences were counted once.
    """
    if screening.tested >= _FEWEST:
        click.echo("\n".join(_lines(screening, shared_once=shared_once)), err=True)


def write_screening(screening: Screening, path: Path, *, overwrite: bool) -> None:
    """Write the summary as a JSON object."""
    content = json.dumps(screening_to_dict(screening), allow_nan=False) + "\n"
    write_output(path, content, overwrite=overwrite)


def _lines(screening: Screening, *, shared_once: bool) -> Iterator[str]:
    tested = counted(screening.tested, "test" if shared_once else "text")
    in_part = f", {screening.in_part:,} in part" if screening.in_part else ""
    runs = f", and {counted(screening.runs, 'shared run')}" if screening.runs else ""
    yield f"{tested} with a p-value; {screening.watermarked:,} watermarked{in_part}{runs}."
    if not screening.exact:
        yield "  The p-values are not exact, so none of the following is guaranteed."
    yield (
        f"  by chance    up to {screening.expected:.3g} of {tested}, if none is marked, reach the "
        f"level {screening.level:g} on average; under one key they come together"
    )
    if screening.shared_sentences:
        advice = "" if shared_once else "; --shared-once counts them once"
        yield (
            f"  shared       {counted(screening.shared_sentences, 'sentence')} in several texts, "
            f"up to {screening.most_sharing:,} of {screening.texts:,}{advice}"
        )
    for correction in screening.corrections:
        meaning = _MEANINGS[correction.name].format(rate=correction.rate)
        stands = f"{correction.stands:,} stand" + ("s" if correction.stands == 1 else "")
        yield f"  corrected    {stands} by {_NAMES[correction.name]}; {meaning}"
    for name, p_value in screening.smallest:
        by = ", ".join(_standing(screening.corrections, p_value))
        yield f"  stands       {on_one_line(name)}, p = {format_p_value(p_value)} ({by})"
    if (left := max(each.stands for each in screening.corrections) - len(screening.smallest)) > 0:
        yield f"  stands       and {counted(left, 'other')}"


def _standing(corrections: tuple[Correction, ...], p_value: float) -> Iterator[str]:
    """The names of the procedures by which a p-value stands."""
    for each in corrections:
        if each.largest is not None and p_value <= each.largest:
            yield _NAMES[each.name]
