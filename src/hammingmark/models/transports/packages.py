"""Wheels and source distributions, fetched by pip, and npm packages, fetched by npm."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from hammingmark.errors import ModelUnavailable
from hammingmark.models.child import error_of, python_command, run_child
from hammingmark.models.sources import Remote, Tick

# pip downloads into Python's temporary folder first. With that folder in the cache, progress is
# visible, and machines with a small temporary folder in memory do not run out of space.
_PIP = (
    "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
# `pip download` of a source distribution runs its build backend to get the metadata. Therefore
# pip's finder and session fetch only the file, with the user's settings for pip.
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
        best = finder.find_best_candidate(name, SpecifierSet("==" + version)).best_candidate
        if best is None:
            raise DistributionNotFound("No matching distribution found for " + arguments[0])
        response = session.get(best.link.url_without_fragment, headers=HEADERS, stream=True)
        response.raise_for_status()
        with Path(options.download_dir, best.link.filename).open("wb") as file:
            for chunk in response_chunks(response):
                file.write(chunk)
        return 0

sys.exit(FetchOnly("download", "Fetch one file, build nothing.").main(sys.argv[2:]))
"""


class Package(Remote):
    """A package of an index, pinned to a version.

    Attributes:
        requirement: the pinned requirement in the syntax of pip or npm.
    """

    __slots__ = ()

    requirement: str


@dataclass(frozen=True, slots=True)
class Wheel(Package):
    """One wheel on the package index, ``name==version``.

    Attributes:
        python: the Python version of the wheel, if it is not for every Python.
        platform: the platform tag of the wheel, if it is not for every platform.
    """

    requirement: str
    size: int
    python: str | None = None
    platform: str | None = None

    def fetch(self, folder: Path, tick: Tick) -> Path:
        """Download it with ``pip download``."""
        options = ["--only-binary=:all:"]
        if self.python:
            options += ["--python-version", self.python]
        if self.platform:
            options += ["--platform", self.platform]
        command = _pip_command(_PIP, self.requirement, options=options, folder=folder)
        return _fetch(command, "*.whl", folder=folder, tick=tick, place="the package index")


@dataclass(frozen=True, slots=True)
class Sdist(Package):
    """One source distribution on the package index, ``name==version``."""

    requirement: str
    size: int

    def fetch(self, folder: Path, tick: Tick) -> Path:
        """Download it with pip's finder, without building it."""
        options = ["--no-binary=:all:"]
        command = _pip_command(_PIP_SDIST, self.requirement, options=options, folder=folder)
        return _fetch(command, "*.tar.gz", folder=folder, tick=tick, place="the package index")


@dataclass(frozen=True, slots=True)
class NpmPackage(Package):
    """One package that npm fetches, ``name@version``."""

    requirement: str
    size: int

    def fetch(self, folder: Path, tick: Tick) -> Path:
        """Download it with ``npm pack``, without running its scripts."""
        npm = shutil.which("npm")
        if npm is None:
            raise ModelUnavailable(
                "npm, which comes with Node.js, is not installed on this machine",
                kind="not_installed",
            )
        command = [npm, "pack", self.requirement, "--ignore-scripts", "--loglevel=error"]
        command += ["--logs-max=0", f"--cache={folder / 'npm'}", f"--pack-destination={folder}"]
        return _fetch(command, "*.tgz", folder=folder, tick=tick, place="the npm registry")


def _pip_command(script: str, requirement: str, *, options: list[str], folder: Path) -> list[str]:
    scratch = folder / "pip"
    scratch.mkdir()
    command = [*python_command(script), str(scratch), "download", "--no-deps"]
    command += ["--ignore-requires-python", "--no-cache-dir", "--no-input", "-q"]
    command += ["--disable-pip-version-check", "-d", str(folder)]
    return [*command, *options, requirement]


def _fetch(command: list[str], pattern: str, *, folder: Path, tick: Tick, place: str) -> Path:
    failure = run_child(command, folder=folder, tick=tick)
    if failure is not None:
        raise error_of(failure, place=place)
    paths = sorted(folder.glob(pattern))
    if len(paths) != 1:
        raise ModelUnavailable(f"the download contained no {pattern}", kind="absent")
    return paths[0]
