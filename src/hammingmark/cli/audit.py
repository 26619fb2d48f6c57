"""``hammingmark audit``: verifying the audit log of the service."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from hammingmark.reports.text import printable

_path = click.Path(path_type=Path)


@click.group()
def audit() -> None:
    """Verify the audit log of the service."""


@audit.command()
@click.argument("file", type=_path)
@click.option(
    "--earlier", multiple=True, type=_path,
    help="Earlier file of the log, moved away by rotation; repeatable, oldest first.",
)  # fmt: skip
@click.option(
    "--holds", metavar="HASH",
    help="Hash of the last line, as printed by an earlier check; the line must still exist.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(file: Path, earlier: tuple[Path, ...], holds: str | None, as_json: bool) -> None:
    """Verify the hash chain of an audit log.

    Each line contains the hash of the previous line, so a line that was changed, removed, added or
    moved is reported. Two changes are found only with --holds and a hash stored elsewhere: lines
    cut off the end, and a log rewritten with new hashes. The last line of a log in use may be
    incomplete.

    The exit code is 1 if a problem is found.
    """
    from hammingmark.server.audit_file import check

    if holds is not None and not re.fullmatch(r"[0-9a-f]{64}", holds):
        raise click.BadParameter("a hash has 64 hexadecimal digits.", param_hint="--holds")
    result = check(file, earlier=earlier, once=holds)
    if as_json:
        row = {"lines": result.lines, "head": result.head, "problems": result.problems}
        click.echo(json.dumps(row))
    else:
        for problem in result.problems:
            click.echo(printable(problem))
        if not result.problems:
            click.echo(f"{result.lines:,} lines; the hash chain is intact.")
            click.echo(f"The last line has the hash {result.head}; store it elsewhere for --holds.")
    if result.problems:
        click.get_current_context().exit(1)
