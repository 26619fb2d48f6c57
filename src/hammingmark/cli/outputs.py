"""Output files: written atomically, and never over another file by accident.

A device or a pipe (``/dev/stdout``, ``/dev/null``) contains nothing that could be lost and is
written directly.
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
# Errors of file systems without hard links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse, before any work is done, a file that cannot be written or must not be overwritten.

    Raises:
        InputError: it exists and ``overwrite`` is off, it is a key file or a folder, or its folder
            does not exist or is not writable.
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
        raise InputError(f"{path} is a folder. Name a file in it.")
    if not overwrite:
        raise _exists(path)
    _check_folder(path, target.parent)
    _check_no_key(path)


def write_output(path: Path, text: str | bytes, *, overwrite: bool) -> None:
    """Write a file atomically.

    Text is encoded as UTF-8, with a replacement for what cannot be encoded. The file is written
    under a temporary name in the same folder and then renamed. Without ``overwrite`` it gets its
    name by a hard link, which fails if a file of this name has appeared meanwhile.

    Raises:
        InputError: as in `check_output`, or the disk is full.
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
        partial = target.with_name(f".{secrets.token_hex(8)}.partial")
        try:
            _write_new(partial, content)
            if overwrite:
                _keep_mode(partial, target)
                partial.replace(target)
            else:
                _link(partial, target, content)
        finally:
            partial.unlink(missing_ok=True)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise _cannot_write(path, error) from None


def is_stream(path: Path) -> bool:
    """Whether the path is a device, a pipe or an open stream rather than a file on a disk."""
    if path.parent in _STREAMS and path.exists():
        return True  # /dev/stdout, even if the shell redirects it to a file
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_stdout(path: Path) -> bool:
    """Whether the path is another name of standard output."""
    try:
        # Opening the file to which standard output is redirected would write from its beginning.
        return is_stream(path) and os.path.samestat(path.stat(), os.fstat(1))
    except OSError:
        return False


def _check_folder(path: Path, folder: Path) -> None:
    if not folder.is_dir():
        raise InputError(
            f"Cannot write {path}: the folder {folder} does not exist. Create it first."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(
            f"Cannot write {path}: no permission to write to {folder}. Name another file."
        )


def _check_no_key(path: Path) -> None:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_KEY)
    except OSError as error:
        raise InputError(
            f"Cannot check whether {path} is a key file ({error.strerror}), and a lost key cannot "
            "be recreated. Name another file."
        ) from None
    try:
        record = json.loads(decode(content))
    except (ValueError, RecursionError):
        return
    if isinstance(record, dict) and record.get("format") == KEY_FORMAT:
        raise InputError(
            f"{path} is a key file and is never overwritten, because a lost key cannot be "
            "recreated. Name another file."
        )


def _write_new(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _keep_mode(partial: Path, target: Path) -> None:
    if target.exists():
        partial.chmod(stat.S_IMODE(target.stat().st_mode))


def _link(partial: Path, target: Path, content: bytes) -> None:
    try:
        os.link(partial, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _write_new(target, content)  # not atomic, but overwrites nothing


def _exists(path: Path) -> InputError:
    return InputError(f"{path} exists. Name another file, or replace it with --overwrite.")


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(f"Cannot write {path}: {error.strerror}.")


def echo_table(table: Table, *, width: int | None = None) -> None:
    """Print a table with click, so that errors of standard output are handled in one place."""
    from rich.console import Console

    console = Console(width=width)
    with console.capture() as captured:
        console.print(table)
    click.echo(captured.get(), nl=False)
