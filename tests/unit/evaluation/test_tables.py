"""Results in tables."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console

from hammingmark.errors import InputError
from hammingmark.evaluation.metrics import Interval
from hammingmark.evaluation.tables import Column, tabulate, write_cell

COLUMNS = (
    Column("method", "point", required=True),
    Column("found", "as written.found at 0.01"),
    Column("share", "share", ".0%"),
)
RESULTS = [
    {"point": "a|b", "as written": {"found at 0.01": Interval(0.5, 0.25, 0.75)}, "share": 0.5},
    {"point": "[c]"},
]


def test_markdown() -> None:
    assert tabulate(RESULTS, COLUMNS).markdown() == (
        "| method | found | share |\n"
        "| --- | --- | --- |\n"
        "| a\\|b | 0.50 (0.25 to 0.75) | 50% |\n"
        "| [c] | - | - |\n"
    )


def test_json() -> None:
    assert json.loads(tabulate(RESULTS, COLUMNS).json()) == [
        {"method": "a|b", "found": {"value": 0.5, "low": 0.25, "high": 0.75}, "share": 0.5},
        {"method": "[c]", "found": None, "share": None},
    ]


def test_on_a_terminal_no_value_is_taken_for_markup() -> None:
    written = StringIO()
    Console(file=written, width=80).print(tabulate(RESULTS, COLUMNS).rich())
    assert "[c]" in written.getvalue()
    assert "0.50 (0.25 to 0.75)" in written.getvalue()


def test_a_missing_required_value_is_an_error() -> None:
    with pytest.raises(InputError):
        tabulate([{"share": 1.0}], COLUMNS)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [(None, ".2f", "-"), (1234, "", "1,234"), (0.12345, "", "0.123"), (2, ".1f", "2.0"),
     (True, ".1f", "True"), ("x", ".1f", "x")],
)  # fmt: skip
def test_cells(value: object, form: str, text: str) -> None:
    assert write_cell(value, form) == text
