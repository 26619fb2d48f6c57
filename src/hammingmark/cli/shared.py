"""``detect --shared-once``: sentences that several texts share, judged once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from hammingmark.cli.inputs import read_sources
from hammingmark.cli.outputs import is_stream
from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.detection.shared import SentenceCounts, SharedOnce, SharedRun
from hammingmark.errors import InputError
from hammingmark.records import Verdict
from hammingmark.reports.text import as_text, printable
from hammingmark.serialization import verdict_to_dict


def require_rereadable(files: Sequence[str]) -> None:
    """Refuse standard input and pipes, which cannot be read twice.

    Raises:
        InputError: one of them is named, or no file.
    """
    for name in files or ["-"]:
        if name == "-" or is_stream(Path(name)):
            raise InputError(
                f"--shared-once reads the texts twice, and {name} can be read once. Save the texts "
                "in files first."
            )


def judge_shared_once(
    judge: Detector | DetectorGroup, texts: Iterable[str], files: Sequence[str], *, field: str
) -> Iterator[tuple[Verdict, list[tuple[SharedRun, Verdict]]]]:
    """Judge texts, after reading the files once to count their sentences."""
    apart = SharedOnce(judge)
    counts = SentenceCounts()
    for source in read_sources(files, field=field, names_skipped=False):
        if not source.error:
            counts.add(apart.splitter.split(source.text).carrying)
    return apart.judge_many(texts, counts.shared())


def describe_run(source: str, run: SharedRun) -> str:
    """The name of a run of shared sentences."""
    place = f"sentence {run.end}"
    if run.end - run.begin > 1:
        place = f"sentences {run.begin + 1} to {run.end}"
    count = f"{run.fewest:,}" if run.fewest == run.most else f"{run.fewest:,} to {run.most:,}"
    return f"{source}, {place}, in {count} texts"


def show_run(run: SharedRun, verdict: Verdict, *, name: str, source: str, as_json: bool) -> None:
    """Print the verdict on a run."""
    if as_json:
        shared = {
            "begin": run.begin,
            "end": run.end,
            "fewest_texts": run.fewest,
            "most_texts": run.most,
        }
        record = {"source": source, "shared": shared, **verdict_to_dict(verdict)}
        click.echo(json.dumps(record, allow_nan=False))
        return
    click.echo(click.style(printable(name), bold=True))
    click.echo(as_text(verdict, sentences=False))
    click.echo()
