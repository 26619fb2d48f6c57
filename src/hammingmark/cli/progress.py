"""What long work shows on a terminal, on standard error, and what it says elsewhere."""

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
"""Seconds between two lines where there is no terminal to show a running count on."""


def fetch_encoder(spec: str) -> Encoder:
    """An encoder by what a user types; a first use pulls its files and says so."""
    with shown_progress() as report:
        return load_encoder(spec, store=model_store(progress=report))


def fetch_backend(spec: str, **options: Any) -> Backend:
    """A language model by what a user types; a first use pulls its file and says so.

    Args:
        spec: the model.
        options: further arguments of `load_backend`.
    """
    with shown_progress() as report:
        return load_backend(spec, store=model_store(progress=report), **options)


@contextmanager
def shown_progress() -> Iterator[Report]:
    """A report for :class:`ModelStore`: a bar on a terminal, otherwise one line."""
    if not sys.stderr.isatty():
        yield _say
        return
    with _bar() as report:
        yield report


def describe(size: int) -> str:
    """Bytes for a person: ``91 MB``."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{max(size / 1e6, 1):.0f} MB"


@contextmanager
def counting(
    what: str, *, shown: bool = True, every: float | None = None
) -> Iterator[Callable[[int], None]]:
    """A running count on standard error; yields the function that advances it.

    On a terminal it is a line that changes; elsewhere a line from time to time, none for what
    is done soon.

    Args:
        what: is counted.
        shown: whether to show anything on a terminal, where other output may be shown instead.
        every: seconds between two lines elsewhere.
    """
    if not sys.stderr.isatty():
        yield _lines(what, EVERY if every is None else every)
        return
    if not shown:
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
        task = bar.add_task(what, total=None)
        yield lambda steps: bar.advance(task, steps)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A sign of life on a terminal while there is nothing to count; nothing elsewhere.

    Args:
        what: is being done.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(what, total=None)
        yield


def _lines(what: str, every: float) -> Callable[[int], None]:
    began = told = time.monotonic()
    done = 0

    def advance(steps: int) -> None:
        nonlocal told, done
        done += steps
        now = time.monotonic()
        if now - told >= every:
            told = now
            click.echo(f"{done:,} {what} after {now - began:.0f} s", err=True)

    return advance


def _sentence(event: Progress) -> str | None:
    name = event.model.name
    if event.stage == "notice":
        return event.notice
    if event.stage == "waiting":
        return f"Waiting: another process is pulling {name}."
    if event.stage == "started":
        size, licence = describe(event.total), event.model.licence
        return f"Pulling {name} ({size}, {licence}) into {event.folder}; this happens once."
    return None


def _say(event: Progress) -> None:
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
