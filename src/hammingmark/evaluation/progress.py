"""The progress of a stage of an evaluation, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Advance = Callable[[int], None]
Progress = Callable[[str, int], AbstractContextManager[Advance]]
"""From a label and a total to the function that advances the count."""

EVERY = 30.0
"""Seconds between two lines without a terminal."""


@contextmanager
def silent(label: str, total: int) -> Iterator[Advance]:
    """Show nothing."""
    yield lambda steps: None


@contextmanager
def shown(label: str, total: int) -> Iterator[Advance]:
    """Show a bar with the time left on a terminal, otherwise a line from time to time."""
    if not total:
        yield lambda steps: None
    elif not sys.stderr.isatty():
        yield _lines(label, total)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(label, total=total)
            yield lambda steps: bars.advance(task, steps)


def _lines(label: str, total: int) -> Advance:
    began = last = time.monotonic()
    done = 0

    def advance(steps: int) -> None:
        nonlocal done, last
        done += steps
        now = time.monotonic()
        if done and now - last >= EVERY:
            last = now
            left = (now - began) / done * (total - done)
            print(f"{label}: {done} of {total}, {left / 60:.0f} min left", file=sys.stderr)

    return advance
