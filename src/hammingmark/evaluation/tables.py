"""Tables of results, as Markdown, as JSON, and on a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any

from hammingmark.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        title: its title.
        path: the path of fields to its value in a row, separated by dots.
        form: the format specification of a number; an interval formats itself.
        required: whether a row without the value is an error; otherwise its cell is a dash.
    """

    title: str
    path: str
    form: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, and a row of values for each result; None for a missing value."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]

    def cells(self) -> list[list[str]]:
        """The values as text."""
        forms = [column.form for column in self.columns]
        return [list(map(write_cell, row, forms)) for row in self.rows]

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [[column.title for column in self.columns], ["---"] * len(self.columns)]
        return "".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
            for cells in [*lines, *self.cells()]
        )

    def json(self) -> str:
        """The table as a JSON list of objects, with values by column title."""
        titles = [column.title for column in self.columns]
        rows = [dict(zip(titles, map(_plain, row), strict=True)) for row in self.rows]
        return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"

    def rich(self) -> RichTable:
        """The table for a terminal."""
        from rich.markup import escape
        from rich.table import Table as RichTable

        table = RichTable()
        for number, column in enumerate(self.columns):
            table.add_column(escape(column.title), justify="right" if number else "left")
        for cells in self.cells():
            table.add_row(*map(escape, cells))
        return table


def tabulate(results: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> Table:
    """A row for each result.

    Raises:
        InputError: a result lacks a required value.
    """
    rows = []
    for number, result in enumerate(results):
        row = tuple(_value(result, column.path) for column in columns)
        for column, value in zip(columns, row, strict=True):
            if value is None and column.required:
                raise InputError(f"Row {number} of the table has no {column.path!r}.")
        rows.append(row)
    return Table(tuple(columns), tuple(rows))


def write_cell(value: object, form: str = "") -> str:
    """A value as text; a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return format(value, form or (".3g" if isinstance(value, float) else ","))
    return str(value)


def _value(result: Mapping[str, Any], path: str) -> Any:
    if path in result:
        return result[path]
    name, dot, rest = path.partition(".")
    inner = result.get(name)
    return _value(inner, rest) if dot and isinstance(inner, Mapping) else None


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
