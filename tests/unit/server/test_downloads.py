"""The service downloads no model without saying so."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.harness import Home, key_of

from hammingmark.assembly.environment import Environment
from hammingmark.cli import serve as serve_command
from hammingmark.errors import HammingMarkError
from hammingmark.models.catalogue import DEFAULT_ENCODER, DEFAULT_GENERATOR
from hammingmark.models.entries import Model, ModelFile
from hammingmark.models.sources import LocalFile
from hammingmark.models.store import ModelStore, Report
from hammingmark.server import service as service_module
from hammingmark.server.config import ServerConfig
from hammingmark.server.service import Service
from hammingmark.testing import FakeBackend

CONTENT = b"not a model, but its hash is right " * 3000


@pytest.fixture
def store_of(tmp_path: Path) -> Callable[..., ModelStore]:
    """Makes stores of the default models, each a small file of this machine."""
    source = tmp_path / "source"
    source.write_bytes(CONTENT)
    digest = hashlib.sha256(CONTENT).hexdigest()
    file = ModelFile("weights.bin", digest, len(CONTENT), (LocalFile(source),))
    catalogue = {
        name: Model(name, "encoder", "MIT", "a toy", (file,))
        for name in (DEFAULT_ENCODER, DEFAULT_GENERATOR)
    }

    def make(environment: Environment | None = None, *, progress: Report | None) -> ModelStore:
        return ModelStore(tmp_path / "cache", catalogue=catalogue, progress=progress)

    return make


def test_the_running_service_logs_what_it_downloads(
    home: Home,
    store_of: Callable[..., ModelStore],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(service_module, "model_store", store_of)
    home.keyring.add(key_of(), name="default")
    service = Service(
        ServerConfig(),
        environment=Environment(home.folder / "cache", home.keyring.folder, offline=True),
        backend=FakeBackend(),
    )
    caplog.set_level(logging.INFO, "hammingmark.server")
    with suppress(HammingMarkError):  # the file is no model
        service._components.encoder(DEFAULT_ENCODER)
    rows: list[dict[str, Any]] = [vars(record)["fields"] for record in caplog.records]
    assert [row["model"] for row in rows] == [DEFAULT_ENCODER] * 2  # at the start and at the end
    assert all(row["megabytes"] == round(len(CONTENT) / 1e6, 1) for row in rows)


def test_on_a_terminal_the_command_downloads_before_it_serves(
    home: Home,
    store_of: Callable[..., ModelStore],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = key_of()
    encoder = replace(key.config.encoder, name=DEFAULT_ENCODER)
    home.keyring.add(replace(key, config=replace(key.config, encoder=encoder)), name="default")
    monkeypatch.setattr(serve_command, "model_store", store_of)
    serve_command._fetch_models(ServerConfig(), home.keyring)
    said = capsys.readouterr().err
    assert all(f"{name} (1 MB, MIT)" in said for name in (DEFAULT_ENCODER, DEFAULT_GENERATOR))
    serve_command._fetch_models(ServerConfig(), home.keyring)
    assert capsys.readouterr().err == ""  # nothing is left to download
