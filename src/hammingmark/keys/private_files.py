"""Reading and writing files that only their owner may read."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from hammingmark.errors import HammingMarkError, InputError

_NONBLOCKING = getattr(os, "O_NONBLOCK", 0)


def read_private(
    path: Path,
    *,
    largest: int,
    kind: str = "",
    is_kind: Callable[[bytes], bool] = lambda content: True,
    error: type[HammingMarkError] = InputError,
) -> bytes:
    """The content of a file of mode 0600 or stricter.

    Args:
        path: the file.
        largest: the largest size, in bytes.
        kind: what the file is, for messages, such as ``the key``.
        is_kind: whether this may be the content of such a file; the mode of another file is not
            what is wrong with it.
        error: the class of the error. When it is raised no variable has the content, because a
            traceback may show variables.

    Raises:
        HammingMarkError: it is absent, too large, not a regular file, or other users may read it.
    """
    try:
        # Opening a pipe does not wait for its writer.
        with open(
            path, "rb", opener=lambda name, flags: os.open(name, flags | _NONBLOCKING)
        ) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise error(f"{path} is not a file.")
            mode = stat.S_IMODE(status.st_mode)
            content = file.read(largest + 1)
    except OSError as failure:
        raise error(f"Cannot read {_named(kind, path)}: {failure.strerror}.") from None
    if len(content) > largest:
        del content
        raise error(f"{path} is larger than {largest:,} bytes. Choose another file.")
    if os.name == "posix" and mode & 0o077:
        looks_right = is_kind(content)
        del content
        if not looks_right:
            raise error(f"Cannot read {_named(kind, path)}: it is another kind of file.")
        raise error(f"Other users can read {path} (mode {mode:04o}). Fix it with: chmod 600 {path}")
    return content


def write_private(
    path: Path,
    content: Callable[[], bytes],
    *,
    replace: bool = True,
    follow: bool = True,
    kind: str = "",
    error: type[HammingMarkError] = InputError,
) -> None:
    """Write a file of mode 0600 atomically; a file that is replaced keeps its owner.

    Args:
        path: the file.
        content: returns the content. No variable has it, because a traceback may show variables.
        replace: whether an existing file is replaced.
        follow: whether the target of a link is replaced, and not the link.
        kind: what the file is, for messages, such as ``the key``.
        error: the class of the error.

    Raises:
        FileExistsError: it exists and ``replace`` is off.
        HammingMarkError: it cannot be written.
    """
    if replace and follow:
        path = path.resolve()
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
    """Flush the entries of a folder to disk.

    Raises:
        OSError: the disk failed.
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


def _keep_owner(handle: int, old: os.stat_result) -> None:
    """Give a file the owner of the old one, so that the account of a service can still read it."""
    new = os.fstat(handle)
    if os.name == "posix" and (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(handle, old.st_uid, old.st_gid)
