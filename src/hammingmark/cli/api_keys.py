"""``hammingmark api-keys``: managing the API keys of the service."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hammingmark.registry import require_libraries

_file = click.option(
    "--file", "path", type=click.Path(path_type=Path), required=True,
    envvar="HAMMINGMARK_SERVE_API_KEYS", show_envvar=True,
    help="File of API keys, as in `serve --api-keys`.",
)  # fmt: skip


@click.group("api-keys")
def api_keys() -> None:
    """Create, list and remove API keys of the service."""
    require_libraries(("fastapi",), part="The service", extra="server")


@api_keys.command()
@click.argument("name")
@_file
@click.option(
    "--scope", "scopes", multiple=True, required=True,
    type=click.Choice(["generate", "detect", "admin"]), help="What the key may do; repeatable.",
)  # fmt: skip
@click.option(
    "--rate", type=float, help="Maximum requests per minute; by default the limit of the service."
)
@click.option("--may-switch-off", is_flag=True, help="Allow requests for unmarked text.")
def new(
    name: str, path: Path, scopes: tuple[str, ...], rate: float | None, may_switch_off: bool
) -> None:
    """Create an API key, print it, and add its hash to the file.

    The key is shown only once: the file contains only its hash.
    """
    from hammingmark.server.authorization import add_to_file, new_api_key

    token, key = new_api_key(name, scopes=scopes, rate=rate, may_switch_off=may_switch_off)
    add_to_file(path, key)
    click.echo(token)
    click.echo(f"Added {name} to {path}. The key is shown only once.", err=True)


@api_keys.command("list")
@_file
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per key.")
def list_(path: Path, as_json: bool) -> None:
    """List the API keys by name."""
    from hammingmark.server.authorization import SCOPES, read_api_keys

    for key in read_api_keys(path):
        scopes = [scope for scope in SCOPES if scope in key.scopes]
        if as_json:
            row = {
                "name": key.name,
                "scopes": scopes,
                "rate": key.rate,
                "may_switch_off": key.may_switch_off,
            }
            click.echo(json.dumps(row))
        else:
            rate = "" if key.rate is None else f"  {key.rate:g} per minute"
            off = "  may switch off" if key.may_switch_off else ""
            click.echo(f"{key.name}  {', '.join(scopes)}{rate}{off}")


@api_keys.command()
@click.argument("name")
@_file
def remove(name: str, path: Path) -> None:
    """Remove an API key; a running service refuses it from then on."""
    from hammingmark.server.authorization import remove_from_file

    remove_from_file(path, name)
    click.echo(f"Removed {name} from {path}.", err=True)
