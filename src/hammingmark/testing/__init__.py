"""Fakes of every kind of component, and the checks that every component must pass.

They serve the tests of this package and of packages that register components. They depend only on
the protocols.
"""

from hammingmark.testing.backend_checks import backend_checks, draw
from hammingmark.testing.encoder_checks import encoder_checks
from hammingmark.testing.fakes import (
    FakeBackend,
    FakeEncoder,
    FakeSession,
    FakeSplitter,
    FakeTokenizer,
)
from hammingmark.testing.method_checks import method_checks
from hammingmark.testing.splitter_checks import splitter_checks

__all__ = [
    "FakeBackend",
    "FakeEncoder",
    "FakeSession",
    "FakeSplitter",
    "FakeTokenizer",
    "backend_checks",
    "draw",
    "encoder_checks",
    "method_checks",
    "splitter_checks",
]
