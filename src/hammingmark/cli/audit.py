"""``hammingmark audit``: what an audit log of the service shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from hammingmark.report import printable

_path = click.Path(path_type=Path)


@click.group()
def audit() -> None:
    """Check the audit log of the service."""


@audit.command()
@click.argument("file", type=_path)
@click.option(
    "--earlier", multiple=True, type=_path,
    help="File that was moved away before; may be repeated, oldest first.",
)  # fmt: skip
@click.option(
    "--holds", metavar="HASH",
    help="Hash of the last line as an earlier check told it; the line must still be there.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def verify(file: Path, earlier: tuple[Path, ...], holds: str | None, as_json: bool) -> None:
    """Follow the chain of hashes through an audit log.

    Each line holds the hash of the line before: one that was changed, taken out, added or moved is
    named. Two things do not show: lines that were cut off the end, unless --holds names one of
    them, and a log that somebody wrote anew with all its hashes, unless it is compared with a hash
    that was kept elsewhere. Of a log that is being written, the last line may be unfinished.

    The exit code is 1 when something is wrong.
    """
    from hammingmark.server.audit_file import check

    if holds is not None and not re.fullmatch(r"[0-9a-f]{64}", holds):
        raise click.BadParameter("a hash has 64 hex digits.", param_hint="--holds")
    found = check(file, earlier=earlier, once=holds)
    if as_json:
        row = {"lines": found.lines, "head": found.head, "problems": found.problems}
        click.echo(json.dumps(row))
    else:
        for problem in found.problems:
            click.echo(printable(problem))
        if not found.problems:
            click.echo(f"{found.lines:,} lines, and each follows the one before it.")
            click.echo(f"The last has the hash {found.head}; keep it elsewhere for --holds.")
    if found.problems:
        click.get_current_context().exit(1)
