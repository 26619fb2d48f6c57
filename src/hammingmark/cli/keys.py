"""``hammingmark keys``: managing keys without showing a secret."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from hammingmark.assembly.environment import environment_now
from hammingmark.assembly.keys import (
    DEFAULT_METHOD,
    check_key,
    method_with,
    new_key,
    option_error,
    require_parts_of_options,
)
from hammingmark.assembly.methods import describe_method
from hammingmark.cli.completion import key_names
from hammingmark.cli.options import language_option, read_pairs, splitter_option
from hammingmark.cli.outputs import echo_table
from hammingmark.cli.progress import fetch_encoder, waiting
from hammingmark.errors import KeyFileError
from hammingmark.generation.config import SENTENCE_TOKENS
from hammingmark.keys.config import EncoderId, SentenceConfig, TokenConfig
from hammingmark.keys.key import WatermarkKey
from hammingmark.keys.keyring import _NAME, Entry, Keyring, save, to_json
from hammingmark.models.catalogue import DEFAULT_ENCODER
from hammingmark.reports.text import on_one_line, printable
from hammingmark.watermarks.bilinear.deviates import acceptance_for


@click.group()
def keys() -> None:
    """Create, derive, show, list and rotate secret keys.

    A key is 256 random bits in a file that only its owner may read. Anyone who has the
    file can detect the watermark, and can forge it.
    """


@keys.command()
@click.option("--name", help="Name in the keyring; by default the id of the key.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the key to this file instead of the keyring.",
)
@click.option("--note", default="", help="What the key is for.")
@click.option(
    "--method",
    help=f"Watermarking method; by default {DEFAULT_METHOD}, or hamming if a preset or an option "
    "of hamming is given.",
)
@click.option(
    "--encoder",
    default=DEFAULT_ENCODER,
    show_default=True,
    help="Encoder to which the key is tied, if the method uses one.",
)
@click.option(
    "--backend",
    help="Language model to whose tokenizer the key is tied, if the method marks tokens.",
)
@splitter_option
@language_option
@click.option(
    "--preset",
    default="default",
    show_default=True,
    help="Named parameters of the method: default, economical (fewer candidates), robust (more "
    "evidence) or, of the method hamming, paper.",
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Parameter of the method; overrides the preset; repeatable. `hammingmark methods NAME` "
    "lists the parameters.",
)
@click.option(
    "--length",
    type=click.IntRange(min=1),
    help="Length of the texts in tokens. The key gets the least strict rule by which nine texts in "
    "ten reach --evidence, even if half of their sentences are reworded.",
)
@click.option(
    "--evidence",
    type=click.FloatRange(min=1.0),
    default=20.0,
    show_default=True,
    help="Evidence that texts of --length should reach, in bits: a p-value of 2^-BITS.",
)
@click.option(
    "--bits",
    "-m",
    type=int,
    help="Bits per sentence, m, of the method hamming; short for --set bits=.",
)
@click.option(
    "--threshold", "-t", type=float, help="Bits that must match, T; short for --set threshold=."
)
@click.option(
    "--softness",
    type=float,
    help="Let bits near their hyperplane count less; 0 is the paper's rule; short for "
    "--set softness=.",
)
@click.option(
    "--residual/--whole",
    default=None,
    help="Compare the residual of the next sentence, or the whole sentence; short for "
    "--set residual=.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the key's description as JSON.")
@click.pass_context
def new(
    context: click.Context,
    name: str | None,
    out: Path | None,
    note: str,
    method: str | None,
    encoder: str,
    backend: str | None,
    splitter: str,
    language: str,
    preset: str,
    pairs: tuple[str, ...],
    length: int | None,
    evidence: float,
    bits: int | None,
    threshold: float | None,
    softness: float | None,
    residual: bool | None,
    as_json: bool,
) -> None:
    """Create a key for a method and the encoder or tokenizer to which it is tied."""
    if name and out:
        raise click.UsageError("Give --name or --out, not both.")
    options = {option for option in context.params if _is_explicit(context, option)}
    by_length = sorted(options & {"length", "evidence"})
    if method and by_length and "acceptance" not in describe_method(method).parameters:
        raise option_error(method, by_length[-1], has_no="acceptance rate")
    short = {"bits": bits, "threshold": threshold, "softness": softness, "residual": residual}
    parameters: dict[str, Any] = {k: value for k, value in short.items() if value is not None}
    if length is not None:
        parameters["acceptance"] = acceptance_for(evidence, max(1, length // SENTENCE_TOKENS))
    parameters |= read_pairs(pairs, parameters)
    method = method or method_with(preset, parameters)
    # Everything that can be refused is refused before anything is loaded.
    _require_free(name, out)
    require_parts_of_options(method, options)
    check_key(method, preset=preset, parameters=parameters, tokenizer=backend)
    loaded = fetch_encoder(encoder) if describe_method(method).embeds else encoder
    with waiting("creating the key"):  # reading a tokenizer from its model may take long
        key = new_key(
            loaded,
            method=method,
            tokenizer=backend,
            splitter=splitter,
            language=language,
            preset=preset,
            note=note,
            parameters=parameters,
        )
    _store(key, name=name, out=out, as_json=as_json)


@keys.command()
@click.argument("master", shell_complete=key_names)
@click.argument("label")
@click.option("--name", help="Name in the keyring; by default the id of the key.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the key to this file instead of the keyring.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the key's description as JSON.")
def derive(master: str, label: str, name: str | None, out: Path | None, as_json: bool) -> None:
    """Derive a key from MASTER by LABEL, such as a date, a customer or a document.

    A label always gives the same key, so it need not be stored: `hammingmark generate --key MASTER
    --label LABEL` marks with it, and `hammingmark detect --master MASTER --labels FILE` searches
    many. Write a file for someone who may have this key and no other: neither MASTER nor the keys
    of other labels can be computed from it.
    """
    if name and out:
        raise click.UsageError("Give --name or --out, not both.")
    _store(_ring().find(master).key.derive(label), name=name, out=out, as_json=as_json)


def _is_explicit(context: click.Context, option: str) -> bool:
    """Whether a user gave an option, perhaps with its default."""
    return context.get_parameter_source(option) is ParameterSource.COMMANDLINE


def _require_free(name: str | None, out: Path | None) -> None:
    """Refuse an invalid name, and a file that exists.

    Raises:
        KeyFileError: the name is invalid or taken.
    """
    if name and not _NAME.fullmatch(name):
        raise KeyFileError(
            f"{name!r} is not a valid key name. Use letters, digits, '.', '_' and '-'."
        )
    path = _ring().folder / f"{name}.json" if name else out
    taken = False
    with suppress(OSError):  # writing the key will raise it
        taken = path is not None and path.exists()
    if taken:
        raise KeyFileError(
            f"{path} exists and is not overwritten, because a lost key cannot be recreated. Choose "
            "another name."
        )


def _store(key: WatermarkKey, *, name: str | None, out: Path | None, as_json: bool) -> None:
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
    entries, errors = ring.survey()
    if as_json:
        for entry in entries:
            click.echo(json.dumps(_public(entry)))
    elif entries:
        _table(entries)
    elif not errors:
        click.echo(f"No keys in {ring.folder}. `hammingmark keys new` creates one.")
    for error in errors:
        click.echo(f"Skipped: {printable(str(error))}", err=True)
    if errors:
        sys.exit(1)


def _table(entries: list[Entry]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("name", "id", "created", "method", "tied to", "state", "from", "note", box=None)
    for entry in entries:
        key = entry.key
        row = (
            entry.name,
            key.id,
            f"{key.created:%Y-%m-%d}",
            key.config.method,
            _tied_to(key),
            f"retired {key.retired:%Y-%m-%d}" if key.retired else "active",
            f"{key.parent} {key.label}" if key.parent else "",
            key.note,
        )
        table.add_row(
            *(Text(on_one_line(cell)) for cell in row)
        )  # Text, so that a note is not read as markup
    echo_table(table, width=None if sys.stdout.isatty() else 200)


@keys.command()
@click.argument("key", shell_complete=key_names)
@click.option("--name", help="Name of the new key; by default that of KEY.")
@click.option("--json", "as_json", is_flag=True, help="Print the new key's description as JSON.")
def rotate(key: str, name: str | None, as_json: bool) -> None:
    """Retire KEY and create a key with the same configuration and name.

    The retired key is kept under its name followed by its id, and still detects the texts
    that it marked.
    """
    old, fresh = _ring().rotate(key, name=name)
    if not as_json:
        click.echo(
            f"Retired {old.key.id}; new texts are marked with {fresh.key.id}, named "
            f"{fresh.name!r}.\nDetect earlier texts with --key {_reference(old)}.\n"
        )
    _describe(fresh, as_json=as_json)


def _ring() -> Keyring:
    return Keyring(environment_now().keyring)


def _reference(entry: Entry) -> str:
    """The name or path by which a command finds the key."""
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
        **({"from": f"{key.parent}, label {key.label}"} if key.parent else {}),
        "method": key.config.method,
        **_parts(key),
        "rule": key.config.summary,
        "note": key.note or "-",
        "secret": "hidden; can be derived again from its master key"
        if key.parent
        else "hidden; back up the file, because it cannot be recreated",
    }
    for label, value in rows.items():
        click.echo(f"{label:<8} {on_one_line(value)}")


def _tied_to(key: WatermarkKey) -> str:
    """The names of the encoder and the tokenizer to which a key is tied."""
    parts = (getattr(key.config, name, None) for name in ("encoder", "tokenizer"))
    return ", ".join(part.name for part in parts if part is not None)


def _parts(key: WatermarkKey) -> dict[str, str]:
    """The components to which a key is tied, in words."""
    config = key.config
    rows: dict[str, str] = {}
    if isinstance(config, TokenConfig):
        tokenizer = config.tokenizer
        size = f"{tokenizer.size:,} tokens"
        rows["tokens"] = f"of {tokenizer.name} ({size}, {tokenizer.fingerprint[:16]}…)"
    encoder: EncoderId | None = getattr(config, "encoder", None)
    if encoder is not None:
        size = f"{encoder.dimension} dimensions"
        rows["encoder"] = f"{encoder.name} ({size}, {encoder.fingerprint[:16]}…)"
    if isinstance(config, SentenceConfig):
        splitter = config.splitter
        recorded = f"{splitter.name}, language {splitter.language}" if splitter else "not recorded"
        rows["splitter"] = recorded
    return rows
