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
from hammingmark.protocols import Backend, Encoder

EVERY = 30.0
"""Seconds between two lines where there is no terminal to show a running count on."""


def fetch_encoder(spec: str) -> Encoder:
    """An encoder by what a user types; a first use pulls its files and says so."""
    from hammingmark.cli.models import shown_progress

    with shown_progress() as report:
        return load_encoder(spec, store=model_store(progress=report))


def fetch_backend(spec: str, **options: Any) -> Backend:
    """A language model by what a user types; a first use pulls its file and says so.

    Args:
        spec: the model.
        options: further arguments of `load_backend`.
    """
    from hammingmark.cli.models import shown_progress

    with shown_progress() as report:
        return load_backend(spec, store=model_store(progress=report), **options)


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
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
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
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
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
