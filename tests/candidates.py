"""Candidates of a backend, drawn to the end, for tests."""

from hammingmark.testing import draw

__all__ = ["draw"]
