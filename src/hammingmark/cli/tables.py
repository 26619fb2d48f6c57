"""Tables for people, printed as all other output is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table


def echo_table(table: Table, *, width: int | None = None) -> None:
    """Print a table; what is wrong with standard output is then found out in one place."""
    from rich.console import Console

    console = Console(width=width)
    with console.capture() as captured:
        console.print(table)
    click.echo(captured.get(), nl=False)
