"""Files that only their owner may read."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from hammingmark.errors import InputError

_AT_ONCE = getattr(os, "O_NONBLOCK", 0)


def read_private(path: Path, *, largest: int) -> tuple[bytes, os.stat_result]:
    """The content of a file of mode 0600 or stricter, and the file's state before it was read.

    Args:
        path: the file.
        largest: bytes that it may have.

    Raises:
        InputError: it is absent, too large, no file, or others may read it.
    """
    try:
        # A pipe is not waited for.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE)) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise InputError(f"{path} is not a file.")
            mode = stat.S_IMODE(state.st_mode)
            if os.name == "posix" and mode & 0o077:
                raise InputError(
                    f"{path} can be read by others (mode {mode:04o}); "
                    f"close it with: chmod 600 {path}"
                )
            content = file.read(largest + 1)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None
    if len(content) > largest:
        del content  # a traceback may show what a function holds
        raise InputError(f"{path} has more than {largest:,} bytes; name another file.")
    return content, state


def write_private(path: Path, content: bytes) -> None:
    """Write a file of mode 0600, whole or not at all; an owner that it has already stays.

    Raises:
        InputError: it cannot be written.
    """
    path = path.resolve()  # the file behind a link is replaced, not the link
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                if path.exists():
                    _keep_owner(file.fileno(), path.stat())
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from None


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


def _keep_owner(handle: int, before: os.stat_result) -> None:
    """An administrator's change must not shut out the account under which the service runs."""
    now = os.fstat(handle)
    if os.name == "posix" and (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(handle, before.st_uid, before.st_gid)
