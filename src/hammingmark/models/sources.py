"""The sources of files: their base class, and the sources on this machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path
from tempfile import mkdtemp
from typing import IO

from hammingmark.errors import ModelUnavailable
from hammingmark.models.amend import amend

BLOCK = 1 << 20

Tick = Callable[[int], None]


class Remote(ABC):
    """A download from another machine: a package, or a file of a hub."""

    __slots__ = ()

    size: int
    """Bytes to download."""

    @abstractmethod
    def fetch(self, folder: Path, tick: Tick) -> Path:
        """Download into an empty folder, report the bytes so far to ``tick``, and return the path.

        Raises:
            ModelUnavailable: with the reason as a phrase.
            OSError: with ``ENOSPC`` when the disk is full.
        """


Download = Callable[[Remote, Path, Tick], Path]


def download(remote: Remote, folder: Path, tick: Tick) -> Path:
    """Fetch a remote file; tests replace this function by a fake."""
    return remote.fetch(folder, tick)


class Source(ABC):
    """One way to get the bytes of a file."""

    __slots__ = ()

    @property
    @abstractmethod
    def label(self) -> str:
        """Its name in messages."""

    @property
    def downloads(self) -> tuple[Remote, ...]:
        """Downloads from other machines; none if the file is on this one."""
        return ()

    @property
    def streams(self) -> bool:
        """Whether each download is deleted as soon as it has been read."""
        return False

    @abstractmethod
    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """The bytes, block by block.

        Raises:
            ModelUnavailable: with the reason as a phrase.
        """


@dataclass(frozen=True, slots=True)
class LocalFile(Source):
    """A file on this machine."""

    path: Path

    @property
    def label(self) -> str:
        """Its path."""
        return str(self.path)

    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """The content of the file."""
        return read_file(self.path)


@dataclass(frozen=True, slots=True)
class Shipped(Source):
    """A small file shipped with this package.

    Attributes:
        name: of the file in the package's folder ``amendments``.
    """

    name: str

    @property
    def label(self) -> str:
        """This package."""
        return "this package"

    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """The content of the file."""
        yield _shipped(self.name)


@dataclass(frozen=True, slots=True)
class Amended(Source):
    """A file of weights with changes that are shipped with this package.

    Attributes:
        base: the source of the unchanged file.
        amendments: name of the file of changes in the package's folder ``amendments``.
    """

    base: Source
    amendments: str

    @property
    def label(self) -> str:
        """The label of the unchanged file."""
        return self.base.label

    @property
    def downloads(self) -> tuple[Remote, ...]:
        """The downloads of the unchanged file."""
        return self.base.downloads

    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """The unchanged file with the changes applied."""
        base = b"".join(self.base.chunks(workbench))
        yield from amend(base, _shipped(self.amendments))


def download_size(sources: Iterable[Source]) -> int:
    """Bytes that these sources download; each remote file counts once."""
    return sum(remote.size for remote in {one for source in sources for one in source.downloads})


class Workbench:
    """The scratch folder of one pull; a package with several of the files is fetched once."""

    def __init__(self, folder: Path, *, download: Download, tick: Tick) -> None:
        self._folder = folder
        self._download = download
        self._tick = tick
        self._received = 0
        self._kept: dict[Hashable, Path] = {}

    def fetch(self, remote: Remote) -> Path:
        """Download a remote file; the caller deletes it."""
        path = self._download(
            remote, self.new_folder(), lambda done: self._tick(self._received + done)
        )
        self._received += path.stat().st_size
        self._tick(self._received)
        return path

    def keep(self, remote: Remote) -> Path:
        """Download a remote file once and keep it until the pull ends."""
        return self.keep_built(remote, lambda: self.fetch(remote))

    def keep_built(self, key: Hashable, build: Callable[[], Path]) -> Path:
        """Build a file once and keep it until the pull ends."""
        if key not in self._kept:
            self._kept[key] = build()
        return self._kept[key]

    def new_folder(self) -> Path:
        """An empty folder that is removed when the pull ends."""
        return Path(mkdtemp(dir=self._folder))


def blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Read a stream in blocks of at most one mebibyte."""
    while block := stream.read(BLOCK):
        yield block


def read_file(path: Path) -> Generator[bytes, None, None]:
    """Read the content of a file, block by block.

    Raises:
        ModelUnavailable: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            yield from blocks(stream)
    except OSError as error:
        raise ModelUnavailable(f"the file cannot be read ({error.strerror})") from error


def _shipped(name: str) -> bytes:
    return (resources("hammingmark.models") / "amendments" / name).read_bytes()
