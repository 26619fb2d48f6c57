"""HammingMark: a watermark for text written by language models.

The names below are the public interface. Each is imported at its first use, so importing the
package itself is fast and loads no model library.

>>> import hammingmark
>>> hammingmark.__version__
'0.1.0'
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from hammingmark._version import __version__

if TYPE_CHECKING:
    from hammingmark.assembly.detection import detect, detector
    from hammingmark.assembly.encoders import load_encoder
    from hammingmark.assembly.keys import load_key, new_key
    from hammingmark.assembly.marking import generate, writer
    from hammingmark.assembly.parts import load_splitter
    from hammingmark.errors import HammingMarkError
    from hammingmark.keys.key import WatermarkKey
    from hammingmark.records import Evidence, Generation, Passage, UnitScore, Verdict

__all__ = [
    "Evidence",
    "Generation",
    "HammingMarkError",
    "Passage",
    "UnitScore",
    "Verdict",
    "WatermarkKey",
    "__version__",
    "detect",
    "detector",
    "generate",
    "load_encoder",
    "load_key",
    "load_splitter",
    "new_key",
    "writer",
]

_HOMES = {
    "Evidence": "records",
    "Generation": "records",
    "HammingMarkError": "errors",
    "Passage": "records",
    "UnitScore": "records",
    "Verdict": "records",
    "WatermarkKey": "keys.key",
    "detect": "assembly.detection",
    "detector": "assembly.detection",
    "generate": "assembly.marking",
    "load_encoder": "assembly.encoders",
    "load_key": "assembly.keys",
    "load_splitter": "assembly.parts",
    "new_key": "assembly.keys",
    "writer": "assembly.marking",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
