"""What long work shows on a terminal, on standard error, and what it says elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hammingmark.assemble import load_backend, load_encoder, model_store
from hammingmark.protocols import Backend, Encoder


def fetch_encoder(spec: str) -> Encoder:
    """An encoder by what a user types; a first use pulls its files and says so."""
    from hammingmark.cli.models import shown_progress

    with shown_progress() as report:
        return load_encoder(spec, store=model_store(progress=report))


def fetch_backend(spec: str, *, width: int | None = None) -> Backend:
    """A language model by what a user types; a first use pulls its file and says so."""
    from hammingmark.cli.models import shown_progress

    with shown_progress() as report:
        return load_backend(spec, store=model_store(progress=report), width=width)


@contextmanager
def counting(what: str, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """A running count on standard error; yields the function that advances it."""
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
