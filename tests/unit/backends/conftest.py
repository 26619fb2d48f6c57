"""An OpenAI-compatible server, and backends for it that are closed after the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.backends.openai_client import Maker
from tests.unit.backends.openai_server import Server, running


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def make(server: Server) -> Iterator[Maker]:
    maker = Maker(server.url)
    yield maker
    for backend in maker.made:
        backend.close()
