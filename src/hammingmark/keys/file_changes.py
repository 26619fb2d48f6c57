"""Whether files have changed since they were read."""

from __future__ import annotations

import time
from pathlib import Path

FileState = tuple[tuple[int, ...], ...]

# A file that changes twice within one tick of its clock looks unchanged. Ticks are shorter.
_TICK = 2_000_000_000  # nanoseconds


def state_of(*paths: Path) -> FileState | None:
    """By which files and folders are known again; None if a change might not show yet.

    Take it before you read them. They need not be read again while it is the same, and not None.
    """
    states = tuple(map(_identity, paths))
    latest = max((changed for state in states for changed in state[-2:]), default=0)
    return states if time.time_ns() - latest > _TICK else None


def _identity(path: Path) -> tuple[int, ...]:
    """What identifies the file of a path, and last the times of its changes; () for none."""
    try:
        state = path.stat()
    except OSError:
        return ()
    kind = (state.st_dev, state.st_ino, state.st_mode, state.st_size)
    return (*kind, state.st_mtime_ns, state.st_ctime_ns)
