"""HammingMark with a secret bilinear form of neighbouring sentences; the default method."""

from hammingmark.watermarks.bilinear.config import BilinearConfig
from hammingmark.watermarks.bilinear.deviates import Alternative
from hammingmark.watermarks.bilinear.method import BilinearMark

__all__ = ["Alternative", "BilinearConfig", "BilinearMark"]
