"""Files that only their owner may read."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from hammingmark.errors import HammingMarkError, InputError

_AT_ONCE = getattr(os, "O_NONBLOCK", 0)


def read_private(
    path: Path,
    *,
    largest: int,
    kind: str = "",
    error: type[HammingMarkError] = InputError,
) -> bytes:
    """The content of a file of mode 0600 or stricter.

    Args:
        path: the file.
        largest: bytes that it may have.
        kind: what it is, for messages, such as ``the key``.
        error: what is raised. No variable holds the content then: a traceback may show it.

    Raises:
        HammingMarkError: it is absent, too large, no file, or others may read it.
    """
    try:
        # A pipe is not waited for.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE)) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise error(f"{path} is not a file.")
            mode = stat.S_IMODE(state.st_mode)
            if os.name == "posix" and mode & 0o077:
                raise error(
                    f"{path} can be read by others (mode {mode:04o}); "
                    f"close it with: chmod 600 {path}"
                )
            content = file.read(largest + 1)
    except OSError as failure:
        raise error(f"Cannot read {_named(kind, path)}: {failure.strerror}.") from None
    if len(content) > largest:
        del content
        raise error(f"{path} has more than {largest:,} bytes; name another file.")
    return content


def write_private(
    path: Path,
    content: Callable[[], bytes],
    *,
    replace: bool = True,
    kind: str = "",
    error: type[HammingMarkError] = InputError,
) -> None:
    """Write a file of mode 0600, whole or not at all; an owner that it has already stays.

    Args:
        path: the file.
        content: gives what is written. No variable holds it: a traceback may show it.
        replace: whether it may exist already.
        kind: what it is, for messages, such as ``the key``.
        error: what is raised if it cannot be written.

    Raises:
        FileExistsError: it exists, and must not be replaced.
        HammingMarkError: it cannot be written.
    """
    if replace:
        path = path.resolve()  # the file behind a link is replaced, not the link
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content())
                file.flush()
                if replace and path.exists():
                    _keep_owner(file.fileno(), path.stat())
                os.fsync(file.fileno())
            if replace:
                Path(temporary).replace(path)
            else:
                os.link(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
        sync_folder(path.parent)
    except FileExistsError:
        raise
    except OSError as failure:
        raise error(f"Cannot write {_named(kind, path)}: {failure.strerror}.") from None


def sync_folder(folder: Path) -> None:
    """See to the disk which files a folder has.

    Raises:
        OSError: the disk does not take it.
    """
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _named(kind: str, path: Path) -> str:
    return f"{kind} {path}" if kind else str(path)


def _keep_owner(handle: int, before: os.stat_result) -> None:
    """An administrator's change must not shut out the account under which the service runs."""
    now = os.fstat(handle)
    if os.name == "posix" and (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(handle, before.st_uid, before.st_gid)
