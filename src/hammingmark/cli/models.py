"""``hammingmark models``: listing, downloading, finding and verifying model files."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from hammingmark.assembly.environment import model_store
from hammingmark.cli.outputs import echo_table
from hammingmark.cli.progress import describe, shown_progress
from hammingmark.errors import ModelUnavailable
from hammingmark.models.catalogue import CATALOGUE, DEFAULT_ENCODER, DEFAULT_GENERATOR, find
from hammingmark.models.entries import Model
from hammingmark.models.store import ModelStore

DEFAULT_PAIR = (DEFAULT_ENCODER, DEFAULT_GENERATOR)

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_names = click.argument("names", nargs=-1, metavar="[NAME]...")


@click.group()
def models() -> None:
    """List, download, find and verify model files."""


@models.command("list")
@_json
def list_models(as_json: bool) -> None:
    """List the models of the catalogue, and whether each is installed."""
    store = model_store()
    if as_json:
        _print_json([_summary(store, model) for model in CATALOGUE.values()])
        return
    rows = [
        [
            model.name + (" *" if model.name in DEFAULT_PAIR else ""),
            model.role,
            describe(model.download_size),
            model.licence,
            "installed" if store.present(model.name) else "-",
            model.description,
        ]
        for model in CATALOGUE.values()
    ]
    _print_table(["name", "role", "download", "licence", "state", "what it is"], rows)
    click.echo(f"* default pair. Files are in {store.root / 'models'}.")


@models.command()
@_names
@_json
def pull(names: tuple[str, ...], as_json: bool) -> None:
    """Download models and check their hashes; without a NAME, the default pair."""
    requested = _known(names or DEFAULT_PAIR)
    with shown_progress() as progress:
        store = model_store(progress=progress)
        folders = {model.name: str(store.pull(model.name)) for model in requested}
    if as_json:
        _print_json([{"name": name, "path": path} for name, path in folders.items()])
        return
    for name, path in folders.items():
        click.echo(f"{name}: {path}")


@models.command()
@click.argument("name")
@_json
def path(name: str, as_json: bool) -> None:
    """Print the folder of an installed model."""
    store = model_store()
    folder = store.path(name)
    if folder is None:
        raise ModelUnavailable(
            f"{name} is not in {store.root}. Run `hammingmark models pull {name}` first."
        )
    if as_json:
        _print_json({"name": name, "path": str(folder)})
    else:
        click.echo(folder)


@models.command()
@_names
@_json
def verify(names: tuple[str, ...], as_json: bool) -> None:
    """Hash model files again and compare; without a NAME, those of all installed models.

    The exit code is 1 if a file is missing or wrong.
    """
    store = model_store()
    requested = _known(names or [name for name in CATALOGUE if store.folder(name).is_dir()])
    checks = [(model.name, check) for model in requested for check in store.verify(model.name)]
    if as_json:
        _print_json(
            [
                {"name": name, "file": check.file.name, "state": check.state}
                for name, check in checks
            ]
        )
    elif checks:
        _print_table(
            ["model", "file", "state"],
            [[name, check.file.name, check.state] for name, check in checks],
        )
    else:
        click.echo(f"No models in {store.root}.")
    if any(check.state != "ok" for _, check in checks):
        click.get_current_context().exit(1)


def _known(names: Sequence[str]) -> list[Model]:
    return [find(name) for name in dict.fromkeys(names)]


def _summary(store: ModelStore, model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "role": model.role,
        "licence": model.licence,
        "description": model.description,
        "default": model.name in DEFAULT_PAIR,
        "size": model.size,
        "download_size": model.download_size,
        "present": store.present(model.name),
        "path": str(store.folder(model.name)),
    }


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not sys.stdout.isatty():
        for row in [head, *rows]:
            click.echo("\t".join(row))
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in head:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    echo_table(table)
