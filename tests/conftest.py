"""What many tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The default encoder's files, fetched once; for tests marked slow."""
    from hammingmark.assemble import model_store

    return model_store().ensure("minilm")
