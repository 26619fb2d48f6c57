"""Fakes of every kind of component, and checks for those that others write."""

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
