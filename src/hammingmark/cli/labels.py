"""Labels of derived keys, from a file or a range of dates."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from hammingmark.cli.inputs import read_text
from hammingmark.errors import InputError

_MOST_DAYS = 100_000


def read_labels(file: Path | None, dates: str | None) -> list[str] | None:
    """The labels that a user asks for, each once; None if nobody asks.

    Args:
        file: one label per line.
        dates: ``FROM..TO``, both included, as in 2026-01-31; the labels are the days.

    Raises:
        InputError: there is none, or a date cannot be read.
    """
    if file is None and dates is None:
        return None
    labels = [line.strip() for line in read_text(file).splitlines()] if file else []
    found = list(dict.fromkeys([label for label in labels if label] + _days(dates)))
    if not found:
        raise InputError(f"{file} holds no label; write one per line.")
    return found


def _days(dates: str | None) -> list[str]:
    if dates is None:
        return []
    begin, dots, end = dates.partition("..")
    try:
        first, last = date.fromisoformat(begin), date.fromisoformat(end if dots else begin)
    except ValueError:
        raise InputError(
            f"{dates!r} is no range of dates; write it like 2026-01-01..2026-03-31."
        ) from None
    count = (last - first).days + 1
    if not 1 <= count <= _MOST_DAYS:
        raise InputError(f"{dates!r} is no range of dates: it ends before it begins, or far off.")
    return [(first + timedelta(days=day)).isoformat() for day in range(count)]
