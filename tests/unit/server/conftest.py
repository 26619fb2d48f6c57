"""Services over fakes that are closed in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.backends.openai_server import Server, running
from tests.unit.server.harness import Home, Live, LoopThread, Served


@pytest.fixture(scope="session")
def loop() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def serve(home: Home, loop: LoopThread) -> Iterator[Callable[..., Served]]:
    """Makes a service with given settings, to be called directly."""
    made: list[Served] = []

    def make(**settings: Any) -> Served:
        made.append(Served(home.service(**settings), loop))
        return made[-1]

    yield make
    for served in made:
        served.close()


@pytest.fixture
def live(home: Home) -> Iterator[Callable[..., Live]]:
    """Makes a service with given settings, on a socket."""
    made: list[Live] = []

    def make(**settings: Any) -> Live:
        made.append(Live(home.service(**settings)))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def model_server() -> Iterator[Server]:
    """A server of language models to stand in front of."""
    with running() as made:
        yield made
