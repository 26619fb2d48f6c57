"""Hours, days, weeks and months, and their labels."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.keys.key import as_label
from hammingmark.keys.periods import Period, PeriodName, labels_between

KINDS: tuple[PeriodName, ...] = ("hour", "day", "week", "month")
TIMES = st.datetimes(timezones=st.just(timezone.utc))


@pytest.mark.parametrize(
    ("kind", "label"),
    [("hour", "2026-11-19T14"), ("day", "2026-11-19"), ("week", "2026-W47"), ("month", "2026-11")],
)
def test_a_period_is_named_by_the_time_in_utc(kind: PeriodName, label: str) -> None:
    when = datetime(2026, 11, 19, 14, 59, 59, tzinfo=timezone.utc)
    for zone in (timezone.utc, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))):
        assert Period.at(kind, when.astimezone(zone)).label == label


@pytest.mark.parametrize("kind", KINDS)
@given(when=TIMES)
def test_a_label_is_read_back(kind: PeriodName, when: datetime) -> None:
    period = Period.at(kind, when)
    assert Period.of_label(period.label) == period
    assert as_label(period.label) == period.label


@pytest.mark.parametrize("kind", KINDS)
@given(when=TIMES, more=st.timedeltas(timedelta(0), timedelta(days=400)))
def test_periods_follow_each_other(kind: PeriodName, when: datetime, more: timedelta) -> None:
    begin = Period.at(kind, when)
    try:
        end = Period.at(kind, when + more)
    except OverflowError:
        return
    assert begin <= end
    labels = labels_between(begin.label, end.label)
    assert labels == sorted(set(labels))
    assert (labels[0], labels[-1]) == (begin.label, end.label)


@pytest.mark.parametrize(
    "label",
    ["", "2026", "2026-13", "2026-02-30", "2026-W54", "2025-W53", "2026-1-1", "2026-11-19T24",
     "0000-01-01", "2026-11-19 ", "2026-11-19.2", "٢٠٢٦-11-19", "customer-17"],
)  # fmt: skip
def test_other_labels_are_of_no_period(label: str) -> None:
    assert Period.of_label(label) is None


def test_ranges_cross_years() -> None:
    assert labels_between("2026-12-31T23", "2027-01-01T00") == ["2026-12-31T23", "2027-01-01T00"]
    assert labels_between("2026-W52", "2027-W01") == ["2026-W52", "2026-W53", "2027-W01"]
    assert labels_between("2026-12", "2027-01") == ["2026-12", "2027-01"]
    assert len(labels_between("2026-01-01", "2026-12-31")) == 365


@pytest.mark.parametrize(
    ("first", "last"),
    [("May", "June"), ("2026-11-19", "2026-11"), ("2026-02-01", "2026-01-01"),
     ("0001-01-01", "2026-01-01")],
)  # fmt: skip
def test_what_is_no_range_is_refused(first: str, last: str) -> None:
    with raises_naming(InputError, f"'{first}..{last}'"):
        labels_between(first, last)
