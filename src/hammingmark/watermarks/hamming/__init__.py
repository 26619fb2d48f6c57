"""HammingMark (after Sun et al. 2026): hash bits of neighbouring sentences match."""

from hammingmark.watermarks.hamming.config import HammingConfig
from hammingmark.watermarks.hamming.method import HammingMark, planes_of

__all__ = ["HammingConfig", "HammingMark", "planes_of"]
