"""Files that a user named to be written: whole or not at all, and never over another by accident.

A device or a pipe (``/dev/stdout``, ``/dev/null``) holds nothing that could be lost and is written
to as it is.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hammingmark.cli.inputs import decode
from hammingmark.errors import InputError
from hammingmark.keys.keyring import FORMAT as KEY_FORMAT

if TYPE_CHECKING:
    from rich.table import Table

_STREAMS = tuple(map(Path, ("/dev", "/dev/fd", "/proc/self/fd")))
_LARGEST_KEY = 1 << 20  # bytes; a key file has a few hundred
# What a file system says that knows no hard links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that could not be written, or not without loss, before any work is done.

    Raises:
        InputError: it exists and ``overwrite`` is off, it is a key file or a folder, or its folder
            is not there or cannot be written to.
    """
    if is_stream(path):
        return
    target = path.resolve()
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        _check_folder(path, target.parent)
        return
    except OSError as error:
        raise _cannot_write(path, error) from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{path} is a folder; name a file in it with --out.")
    if not overwrite:
        raise _exists(path)
    _check_folder(path, target.parent)
    _check_no_key(path)


def write_output(path: Path, text: str | bytes, *, overwrite: bool) -> None:
    """Write a file, whole or not at all.

    Text becomes UTF-8; what cannot be encoded is replaced. The file is written under a temporary
    name beside the other, which it then takes. Without ``overwrite`` that is a hard link, which
    fails where a file of the name has come up meanwhile.

    Raises:
        InputError: as `check_output` does, or the disk is full.
    """
    content = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    if is_stdout(path):
        click.echo(content, nl=False)
        return
    check_output(path, overwrite=overwrite)
    target = path.resolve()
    try:
        if is_stream(path):
            with path.open("wb", buffering=0) as stream:
                stream.write(content)
            return
        generation = target.with_name(f".{secrets.token_hex(8)}.partial")
        try:
            _write_new(generation, content)
            if overwrite:
                _keep_mode(generation, target)
                generation.replace(target)
            else:
                _link(generation, target, content)
        finally:
            generation.unlink(missing_ok=True)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise _cannot_write(path, error) from None


def is_stream(path: Path) -> bool:
    """Whether this is a device, a pipe or an open stream rather than a file on a disk."""
    if path.parent in _STREAMS and path.exists():
        return True  # /dev/stdout, even where the shell sends it into a file
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_stdout(path: Path) -> bool:
    """Whether this is standard output under another name."""
    try:
        # Opened anew, a file that standard output goes to would be written from its beginning.
        return is_stream(path) and os.path.samestat(path.stat(), os.fstat(1))
    except OSError:
        return False


def _check_folder(path: Path, folder: Path) -> None:
    if not folder.is_dir():
        raise InputError(f"Cannot write {path}: there is no folder {folder}; make it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"Cannot write {path}: you may not write to {folder}; name another --out.")


def _check_no_key(path: Path) -> None:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_KEY)
    except OSError as error:
        raise InputError(
            f"Cannot tell whether {path} is a key ({error.strerror}), and a lost key cannot be "
            "made again; name another --out."
        ) from None
    try:
        found = json.loads(decode(content))
    except (ValueError, RecursionError):
        return
    if isinstance(found, dict) and found.get("format") == KEY_FORMAT:
        raise InputError(
            f"{path} is a key file and is not overwritten, since a lost key cannot be made again; "
            "name another --out."
        )


def _write_new(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _keep_mode(generation: Path, target: Path) -> None:
    if target.exists():
        generation.chmod(stat.S_IMODE(target.stat().st_mode))


def _link(generation: Path, target: Path, content: bytes) -> None:
    try:
        os.link(generation, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _write_new(target, content)  # may be left unfinished, but overwrites nothing


def _exists(path: Path) -> InputError:
    return InputError(f"{path} exists; name another --out, or say --overwrite to replace it.")


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(f"Cannot write {path}: {error.strerror}.")


def echo_table(table: Table, *, width: int | None = None) -> None:
    """Print a table; what is wrong with standard output is then found out in one place."""
    from rich.console import Console

    console = Console(width=width)
    with console.capture() as captured:
        console.print(table)
    click.echo(captured.get(), nl=False)
