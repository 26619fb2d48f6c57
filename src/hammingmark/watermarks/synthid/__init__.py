"""SynthID-Text: tokens that win a tournament of secret bits (Dathathri et al., Nature 2024)."""

from hammingmark.watermarks.synthid.config import SynthIDConfig
from hammingmark.watermarks.synthid.method import SynthIDMark

__all__ = ["SynthIDConfig", "SynthIDMark"]
