"""HammingMark: a watermark for text written by language models.

The names below are the public door. Each is fetched when it is first used, so that importing the
package costs next to nothing.

>>> import hammingmark
>>> hammingmark.__version__
'0.1.0'
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from hammingmark._version import __version__

if TYPE_CHECKING:
    from hammingmark.assemble import (
        detect,
        detector,
        generate,
        load_encoder,
        load_key,
        load_splitter,
        new_key,
        writer,
    )
    from hammingmark.errors import HammingMarkError
    from hammingmark.keys import WatermarkKey
    from hammingmark.records import Evidence, Generation, Passage, Transition, Verdict

__all__ = [
    "Evidence",
    "Generation",
    "HammingMarkError",
    "Passage",
    "Transition",
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
    "HammingMarkError": "errors",
    "WatermarkKey": "keys",
    "Evidence": "records",
    "Generation": "records",
    "Passage": "records",
    "Transition": "records",
    "Verdict": "records",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f"{__name__}.{_HOMES.get(name, 'assemble')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
