"""Hours, days, weeks and months in UTC, whose names are labels of derived keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Literal

from hammingmark.errors import InputError

PeriodName = Literal["hour", "day", "week", "month"]

_MOST = 100_000  # periods of a range


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """One period in UTC, such as a day.

    Attributes:
        kind: ``hour``, ``day``, ``week`` (of ISO 8601, from Monday) or ``month``.
        number: of the periods of its kind; each is one more than the one before.
    """

    kind: PeriodName
    number: int

    @classmethod
    def at(cls, kind: PeriodName, when: datetime) -> Period:
        """The period of a time, which must have a time zone."""
        when = when.astimezone(timezone.utc)
        return cls(kind, _KINDS[kind].number_at(when.date(), when.hour))

    @classmethod
    def of_label(cls, label: str) -> Period | None:
        """The period with this label; None if the label is of no period."""
        for kind, form in _KINDS.items():
            match = form.pattern.fullmatch(label)
            try:
                number = form.number_of(*map(int, match.groups())) if match else None
            except ValueError:  # there is no such day
                continue
            if number is not None and (period := cls(kind, number)).label == label:
                return period
        return None

    @property
    def label(self) -> str:
        """Its label: ``2026-11-19T14``, ``2026-11-19``, ``2026-W47`` or ``2026-11``."""
        return _KINDS[self.kind].label_of(self.number)


def labels_between(first: str, last: str) -> list[str]:
    """The labels of all periods from one to another, both included.

    Args:
        first: the label of a period, which says what the periods are: days by ``2026-11-19``, hours
            by ``2026-11-19T14``, weeks by ``2026-W47``, months by ``2026-11``.
        last: the label of another, in the same form.

    Raises:
        InputError: a label is of no period, or the range is empty or too long.
    """
    begin, end = Period.of_label(first), Period.of_label(last)
    span = f"{first}..{last}"
    if begin is None or end is None or begin.kind != end.kind:
        raise InputError(
            f"{span!r} is not a range of dates. Write it like 2026-01-01..2026-03-31 or, for "
            "weeks, months and hours, 2026-W01..2026-W13, 2026-01..2026-03, "
            "2026-01-01T00..2026-01-01T23."
        )
    count = end.number - begin.number + 1
    if not 1 <= count <= _MOST:
        raise InputError(
            f"{span!r} is not a range of dates from 1 to {_MOST:,} {begin.kind}s. Change its ends."
        )
    return [Period(begin.kind, begin.number + step).label for step in range(count)]


@dataclass(frozen=True, slots=True)
class _Form:
    """How the periods of a kind are counted and written.

    Attributes:
        pattern: of labels; its groups are numbers.
        number_at: the number of the period of a day and an hour.
        number_of: the number of the period with these groups.
        label_of: the label of the period of a number.
    """

    pattern: re.Pattern[str]
    number_at: Callable[[date, int], int]
    number_of: Callable[..., int]
    label_of: Callable[[int], str]


def _week_label(number: int) -> str:
    year, week, _ = date.fromordinal(7 * number + 1).isocalendar()
    return f"{year:04}-W{week:02}"


_KINDS: Mapping[PeriodName, _Form] = {
    "hour": _Form(
        re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)", re.ASCII),
        lambda day, hour: 24 * day.toordinal() + hour,
        lambda year, month, day, hour: 24 * date(year, month, day).toordinal() + hour,
        lambda number: f"{date.fromordinal(number // 24).isoformat()}T{number % 24:02}",
    ),
    "day": _Form(
        re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII),
        lambda day, hour: day.toordinal(),
        lambda year, month, day: date(year, month, day).toordinal(),
        lambda number: date.fromordinal(number).isoformat(),
    ),
    "week": _Form(
        re.compile(r"(\d{4})-W(\d\d)", re.ASCII),
        lambda day, hour: (day.toordinal() - 1) // 7,  # day 1, of the year 1, is a Monday
        lambda year, week: (date.fromisocalendar(year, week, 1).toordinal() - 1) // 7,
        _week_label,
    ),
    "month": _Form(
        re.compile(r"(\d{4})-(\d\d)", re.ASCII),
        lambda day, hour: 12 * day.year + day.month - 1,
        lambda year, month: 12 * date(year, month, 1).year + month - 1,
        lambda number: f"{number // 12:04}-{number % 12 + 1:02}",
    ),
}
