"""SynthID-Text (Dathathri et al., Nature 2024): tokens win a tournament of secret bits."""

from hammingmark.watermarks.synthid.config import SynthIDConfig
from hammingmark.watermarks.synthid.method import SynthIDMark

__all__ = ["SynthIDConfig", "SynthIDMark"]
