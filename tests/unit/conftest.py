"""What holds for all unit tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _one_thread_for_tiny_models() -> Iterator[None]:
    """Threads that share so little work mostly wait for each other: twice as long, and more."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
