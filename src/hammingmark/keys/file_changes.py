"""Detecting whether files have changed since they were read."""

from __future__ import annotations

import time
from pathlib import Path

FileState = tuple[tuple[int, ...], ...]

# A file that changes twice within one tick of the file system's clock looks unchanged. Ticks are
# shorter than this.
_TICK = 2_000_000_000  # nanoseconds


def state_of(*paths: Path) -> FileState | None:
    """The state of files and folders; None if the next change of one might not alter it.

    Take it before reading them. They need not be read again while the state is equal and not None.
    """
    states = tuple(map(_state, paths))
    now = time.time_ns()
    return states if all(_is_settled(state, now) for state in states) else None


def _is_settled(state: tuple[int, ...], now: int) -> bool:
    """Whether the next change of a file alters its state."""
    if not state:
        return True
    modified, changed = state[-2:]
    # Tools set the time of modification to any time, in the future too; the clock sets the other.
    return now - changed > _TICK and abs(now - modified) > _TICK


def _state(path: Path) -> tuple[int, ...]:
    """Device, inode, mode and size of a file, and two times of change; () for a missing file."""
    try:
        status = path.stat()
    except OSError:
        return ()
    identity = (status.st_dev, status.st_ino, status.st_mode, status.st_size)
    return (*identity, status.st_mtime_ns, status.st_ctime_ns)
