"""HammingMark with a secret bilinear form in place of bits: the next sentence lies on one side."""

from hammingmark.watermarks.bilinear.config import BilinearConfig
from hammingmark.watermarks.bilinear.deviates import Alternative
from hammingmark.watermarks.bilinear.method import BilinearMark

__all__ = ["Alternative", "BilinearConfig", "BilinearMark"]
