"""HammingMark (after Sun et al. 2026): the next sentence agrees with the one before, bit by bit."""

from hammingmark.watermarks.hamming.config import HammingConfig
from hammingmark.watermarks.hamming.method import HammingMark, planes_of

__all__ = ["HammingConfig", "HammingMark", "planes_of"]
