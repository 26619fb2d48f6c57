"""``hammingmark serve``: the watermarking proxy and its page."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hammingmark.assembly.backends import resolve_backend
from hammingmark.assembly.encoders import resolve_encoder
from hammingmark.assembly.environment import environment_now, model_store
from hammingmark.assembly.keys import new_key
from hammingmark.assembly.marking import default_backend
from hammingmark.cli.options import read_pairs
from hammingmark.cli.progress import shown_progress
from hammingmark.errors import InputError, KeyFileError
from hammingmark.keys.config import EMBEDDING
from hammingmark.keys.keyring import Keyring
from hammingmark.registry import require_libraries

if TYPE_CHECKING:
    from hammingmark.server.config import ServerConfig

_LIBRARIES = ("fastapi", "uvicorn", "prometheus_client")


@click.command()
@click.option("--config", "file", type=click.Path(path_type=Path), help="TOML file with settings.")
@click.option("--upstream", help="URL of the OpenAI-compatible endpoint behind the proxy.")
@click.option("--upstream-model", help="Model of that endpoint; by default its only model.")
@click.option("--backend", help="Language model, if there is no upstream.")
@click.option("--key", help="Key of the keyring that marks the answers.  [default: default]")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on.  [default: 8080]")
@click.option("--api-keys", type=click.Path(path_type=Path), help="File of API keys.")
@click.option(
    "--open", "is_open", is_flag=True, default=None, help="Accept requests without an API key."
)
@click.option("--audit-log", type=click.Path(path_type=Path), help="File of the audit log.")
@click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE",
    help="Any other setting, such as policy.switch_off=allowed.",
)  # fmt: skip
@click.option("--check", is_flag=True, help="Check the settings, print them, and exit.")
def serve(
    file: Path | None,
    upstream: str | None,
    upstream_model: str | None,
    backend: str | None,
    key: str | None,
    host: str | None,
    port: int | None,
    api_keys: Path | None,
    is_open: bool | None,
    audit_log: Path | None,
    pairs: tuple[str, ...],
    check: bool,
) -> None:
    """Run a watermarking proxy with OpenAI's interface, and a web page for detection.

    Without --upstream the embedded model answers. Options override environment variables (such as
    HAMMINGMARK_SERVE_PORT), which override the file; --check prints every setting and its source.
    The first start creates a key.
    """
    require_libraries(_LIBRARIES, part="The service", extra="server")
    from hammingmark.cli.serve import listening, url_of
    from hammingmark.server.authorization import ApiKeys
    from hammingmark.server.config import ServerConfig, describe, read_config
    from hammingmark.server.logs import setup
    from hammingmark.server.run import run

    options: dict[str, object] = {
        "upstream.url": upstream,
        "upstream.model": upstream_model,
        "backend": backend,
        "key": key,
        "host": host,
        "port": port,
        "api_keys": api_keys,
        "open": is_open,
        "audit.file": audit_log,
    }
    flags = read_pairs(pairs, {name: value for name, value in options.items() if value is not None})
    config = read_config(file, environ=os.environ, flags=flags)
    keyring = Keyring(environment_now().keyring)
    is_new = _is_new(keyring, config.key, is_named=config.key != ServerConfig().key)
    if check:
        rows = describe(config)
        width = max(len(row.name) for row in rows)
        for row in rows:
            click.echo(f"{row.name:<{width}}  {row.value}  ({row.source})")
            click.echo(f"{'':<{width}}  {row.meaning}")
        if not is_new:
            _show_key(config, keyring)
        return
    if config.api_keys:
        ApiKeys(config.api_keys)  # refuses a bad file before a key is created
    with listening(config.host, config.port) as sockets:
        if is_new:
            _make_key(keyring, config.key)
        setup(config.log.level, format=config.log.format)
        if sys.stderr.isatty():
            _fetch_models(config, keyring)
        root = url_of(config.host, sockets)
        click.echo(f"Serving the page at {root}/ and OpenAI's interface at {root}/v1.", err=True)
        run(config, sockets)


def _is_new(keyring: Keyring, name: str, *, is_named: bool) -> bool:
    """Whether to create the key: only on the first start, never over an existing one.

    Raises:
        KeyFileError: the keyring has other keys but not this one, whose name may be misspelt.
    """
    if (keyring.folder / f"{name}.json").exists() or Path(name).suffix == ".json":
        return False
    try:
        keyring.find(name)
    except KeyFileError:
        if is_named and keyring.survey()[0]:
            raise
        return True
    return False


def _show_key(config: ServerConfig, keyring: Keyring) -> None:
    """Print which key marks now, how many sentences it has marked, and what is searched."""
    from hammingmark.server.marking.keys import MarkingKey
    from hammingmark.server.marking.rotation import Rotation
    from hammingmark.server.marking.sentence_record import MARKED, SentenceRecord
    from hammingmark.server.marking.usage import ADVISED_SENTENCES

    record = SentenceRecord(config.rotation.record or keyring.folder / MARKED)
    rotation = Rotation(config.rotation, names=config.policy.labels, used=record.counts)
    key = MarkingKey(config.key, keyring=keyring).current()
    label = rotation.label_in_use(key)
    by = f", by {key.derive(label).id} of the label {label} (UTC)" if label else ""
    if config.rotation.every == "request":
        by = ", by a derived key for each request"
    searched = len(rotation.labels(key))
    click.echo(f"{key.id} marks{by}. Detection searches it and {searched:,} keys derived from it.")
    if config.rotation.every != "request":
        marked = record.counts(key.id).get(label or "", 0)
        click.echo(
            f"{marked:,} sentences are recorded as marked by {label or key.id}; from "
            f"{ADVISED_SENTENCES:,} on another key is advised."
        )


def _make_key(keyring: Keyring, name: str) -> None:
    entry = keyring.add(new_key(note="made by hammingmark serve"), name=name)
    click.echo(
        f"Created the key {entry.key.id} ({entry.key.config.method}), which marks the answers. Its "
        f"file is {entry.path}. Keep a copy: without the key the watermark cannot be detected.",
        err=True,
    )


def _fetch_models(config: ServerConfig, keyring: Keyring) -> None:
    """Download the models of the service with a bar, which could not be drawn among the logs.

    Without a terminal the service logs what it downloads.
    """
    key = keyring.find(config.key).key
    with shown_progress() as report:
        store = model_store(progress=report)
        if isinstance(key.config, EMBEDDING):
            resolve_encoder(key.config.encoder.name).arguments(store)
        if config.upstream.url is None:
            resolve_backend(config.backend or default_backend(key)).arguments(store)


_BACKLOG = 2048  # connections that wait to be accepted
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # such as ::1 of localhost, without IPv6


@contextmanager
def listening(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Listening sockets at every address of a host; connections wait until the service starts.

    Args:
        host: a name or an address.
        port: 0 lets the system choose.

    Raises:
        InputError: this machine does not have the address, or another program uses the port.
    """
    with ExitStack() as opened:
        sockets: list[socket.socket] = []
        missing: OSError | None = None
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            for family, address in dict.fromkeys((each[0], each[4]) for each in addresses):
                try:
                    listener = socket.create_server(address, family=family, backlog=_BACKLOG)
                except OSError as error:
                    if error.errno not in _NOT_HERE:
                        raise
                    missing = error
                else:
                    sockets.append(opened.enter_context(listener))
            if missing and not sockets:
                raise missing
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(
                f"Cannot listen at {host}, port {port}: {reason}. Choose another with --host or "
                "--port, or stop the program that uses the port."
            ) from None
        yield sockets


def url_of(host: str, sockets: list[socket.socket]) -> str:
    """The URL at which the sockets listen."""
    return f"http://{f'[{host}]' if ':' in host else host}:{sockets[0].getsockname()[1]}"
