"""``hammingmark keys``: the secrets, without ever showing one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hammingmark.assemble import environment_now, new_key
from hammingmark.cli.completion import key_names
from hammingmark.cli.progress import fetch_encoder
from hammingmark.cli.tables import echo_table
from hammingmark.keyring import Entry, Keyring, save, to_json
from hammingmark.keys import WatermarkKey
from hammingmark.report import on_one_line, printable
from hammingmark.store.catalogue import DEFAULT_ENCODER

if TYPE_CHECKING:
    from hammingmark.core.presets import PresetName


@click.group()
def keys() -> None:
    """Make, show, list and rotate secret keys.

    A key is 256 random bits in a file that only its owner may read. Anyone who has the
    file can detect the watermark, and can forge it.
    """


@keys.command()
@click.option("--name", help="Name in the keyring; its id by default.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the key to this file instead of the keyring.",
)
@click.option("--note", default="", help="What the key is for.")
@click.option(
    "--encoder", default=DEFAULT_ENCODER, show_default=True, help="Encoder the key is made for."
)
@click.option(
    "--preset",
    type=click.Choice(["default", "economical", "robust", "paper"]),
    default="default",
    show_default=True,
    help="Rule of the key: fewer candidates, more evidence, or the paper's.",
)
@click.option("--bits", "-m", type=int, help="Bits per sentence, m; overrides the preset.")
@click.option(
    "--threshold", "-t", type=float, help="Bits that must match, T; overrides the preset."
)
@click.option(
    "--softness",
    type=float,
    help="Let bits near their hyperplane count less; 0 is the paper's rule; overrides the preset.",
)
@click.option(
    "--residual/--whole",
    "residual",
    default=None,
    help="Compare the residual of the next sentence, or the whole sentence; overrides the preset.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the key's description as JSON.")
def new(
    name: str | None,
    out: Path | None,
    note: str,
    encoder: str,
    preset: PresetName,
    bits: int | None,
    threshold: float | None,
    softness: float | None,
    residual: bool | None,
    as_json: bool,
) -> None:
    """Make a key for an encoder."""
    if name and out:
        raise click.UsageError("Give --name or --out, not both.")
    key = new_key(
        fetch_encoder(encoder),
        preset=preset,
        bits=bits,
        threshold=threshold,
        softness=softness,
        residual=residual,
        note=note,
    )
    if out:
        save(key, out)
        entry = Entry(out.stem, out, key)
    else:
        entry = _ring().add(key, name=name)
    _describe(entry, as_json=as_json)


@keys.command()
@click.argument("key", shell_complete=key_names)
@click.option("--json", "as_json", is_flag=True, help="Print the key's description as JSON.")
def show(key: str, as_json: bool) -> None:
    """Describe KEY (a file, a name or an id). The secret is not shown."""
    _describe(_ring().find(key), as_json=as_json)


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per key.")
def list_keys(as_json: bool) -> None:
    """List the keys of the keyring, oldest first."""
    ring = _ring()
    entries, wrong = ring.survey()
    if as_json:
        for entry in entries:
            click.echo(json.dumps(_public(entry)))
    elif entries:
        _table(entries)
    elif not wrong:
        click.echo(f"No keys in {ring.folder}. `hammingmark keys new` makes one.")
    for error in wrong:
        click.echo(f"Left out: {printable(str(error))}", err=True)
    if wrong:
        sys.exit(1)


def _table(entries: list[Entry]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("name", "id", "created", "encoder", "m", "T", "state", "note", box=None)
    for entry in entries:
        key = entry.key
        row = (
            entry.name,
            key.id,
            f"{key.created:%Y-%m-%d}",
            key.encoder,
            str(key.bits),
            f"{key.threshold:g}",
            f"retired {key.retired:%Y-%m-%d}" if key.retired else "active",
            key.note,
        )
        table.add_row(*(Text(on_one_line(cell)) for cell in row))  # as text: a note is no markup
    echo_table(table, width=None if sys.stdout.isatty() else 200)


@keys.command()
@click.argument("key", shell_complete=key_names)
@click.option("--name", help="Name of the new key; by default it takes over that of KEY.")
@click.option("--json", "as_json", is_flag=True, help="Print the new key's description as JSON.")
def rotate(key: str, name: str | None, as_json: bool) -> None:
    """Retire KEY and make a new one like it, which takes over its name.

    The retired key is kept under its name with its id behind it, and still detects the
    texts it marked.
    """
    old, fresh = _ring().rotate(key, name=name)
    if not as_json:
        click.echo(
            f"Retired {old.key.id}; new texts are marked with {fresh.key.id}, named "
            f"{fresh.name!r}.\nDetect texts marked before with --key {_reference(old)}.\n"
        )
    _describe(fresh, as_json=as_json)


def _ring() -> Keyring:
    return Keyring(environment_now().keyring)


def _reference(entry: Entry) -> str:
    """By what a key is found again."""
    return entry.name if entry.path.parent == _ring().folder else str(entry.path)


def _public(entry: Entry) -> dict[str, object]:
    return {
        "name": entry.name,
        "path": str(entry.path),
        **to_json(entry.key, with_secret=False),
    }


def _describe(entry: Entry, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_public(entry)))
        return
    key = entry.key
    rows = {
        "id": key.id,
        "file": str(entry.path),
        "created": key.created.isoformat(),
        "state": f"retired {key.retired.isoformat()}, successor {key.successor}"
        if key.retired
        else "active",
        "encoder": f"{key.encoder} ({key.dimension} dimensions, {key.fingerprint[:16]}…)",
        "rule": _rule(key),
        "note": key.note or "-",
        "secret": "hidden; back up the file, since it cannot be recreated",
    }
    for label, value in rows.items():
        click.echo(f"{label:<8} {on_one_line(value)}")


def _rule(key: WatermarkKey) -> str:
    softly = f" (soft matching, softness {key.softness:g})" if key.softness else ""
    what = "residual of the next sentence" if key.residual else "next sentence"
    return f"{key.threshold:g} of {key.bits} bits of the {what} must match{softly}"
