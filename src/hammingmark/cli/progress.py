"""Progress of long work on standard error: a display on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.environment import model_store
from hammingmark.models.store import Progress, Report
from hammingmark.protocols import Backend, Encoder

EVERY = 30.0
"""Seconds between two lines of progress without a terminal."""


def fetch_encoder(spec: str) -> Encoder:
    """Load an encoder from its specification, and report the download at its first use."""
    with shown_progress() as report:
        return load_encoder(spec, store=model_store(progress=report))


def fetch_backend(spec: str, **options: Any) -> Backend:
    """Load a language model from its specification, and report the download at its first use.

    Args:
        spec: the specification.
        options: further arguments of `load_backend`.
    """
    with shown_progress() as report:
        return load_backend(spec, store=model_store(progress=report), **options)


@contextmanager
def shown_progress() -> Iterator[Report]:
    """A progress callback for :class:`ModelStore`: a bar on a terminal, elsewhere one line."""
    if not sys.stderr.isatty():
        yield _print_event
        return
    with _bar() as report:
        yield report


def describe(size: int) -> str:
    """A number of bytes in words: ``91 MB``."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{max(size / 1e6, 1):.0f} MB"


@contextmanager
def counting(
    noun: str, *, visible: bool = True, every: float | None = None
) -> Iterator[Callable[[int], None]]:
    """A running count on standard error; yields the function that advances it.

    On a terminal the count is a line that changes, elsewhere a line at intervals, so that short
    work prints none.

    Args:
        noun: what is counted.
        visible: whether to show the count on a terminal; other output may be shown there instead.
        every: seconds between two lines elsewhere.
    """
    if not sys.stderr.isatty():
        yield _lines(noun, EVERY if every is None else every)
        return
    if not visible:
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:.0f}"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(noun, total=None)
        yield lambda steps: bar.advance(task, steps)


@contextmanager
def waiting(activity: str) -> Iterator[None]:
    """A spinner on a terminal while there is nothing to count; nothing elsewhere.

    Args:
        activity: what is being done.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(activity, total=None)
        yield


def _lines(noun: str, every: float) -> Callable[[int], None]:
    start = last_line = time.monotonic()
    done = 0

    def advance(steps: int) -> None:
        nonlocal last_line, done
        done += steps
        now = time.monotonic()
        if now - last_line >= every:
            last_line = now
            click.echo(f"{done:,} {noun} after {now - start:.0f} s", err=True)

    return advance


def _sentence(event: Progress) -> str | None:
    name = event.model.name
    if event.stage == "notice":
        return event.notice
    if event.stage == "waiting":
        return f"Waiting: another process is downloading {name}."
    if event.stage == "started":
        size, licence = describe(event.total), event.model.licence
        return f"Downloading {name} ({size}, {licence}) to {event.folder}; only needed once."
    return None


def _print_event(event: Progress) -> None:
    if sentence := _sentence(event):
        click.echo(sentence, err=True)


@contextmanager
def _bar() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def report(event: Progress) -> None:
            name = event.model.name
            if sentence := _sentence(event):
                bar.console.print(sentence, markup=False, highlight=False, soft_wrap=True)
            if event.stage == "started":
                tasks[name] = bar.add_task(name, total=event.total)
            elif event.stage in {"downloading", "done"}:
                bar.update(tasks[name], completed=event.done, total=event.total)

        yield report
