"""Names to parts, looked up late.

Each room lists its parts as ``"module:attribute"`` strings, so that naming a part costs no
import. An installed package adds one through the entry-point group ``hammingmark.<room>``.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from hammingmark.errors import UnknownName

ROOMS: Mapping[str, Mapping[str, str]] = {
    "splitters": {
        "sentencex": "hammingmark.sentences.sentencex:SentencexSplitter",
        "punkt": "hammingmark.sentences.punkt:PunktSplitter",
    },
    "encoders": {
        "onnx": "hammingmark.encoders.onnx:OnnxEncoder",
        "static": "hammingmark.encoders.static:StaticEncoder",
        "sbert": "hammingmark.encoders.sbert:SbertEncoder",
        "openai": "hammingmark.encoders.openai:OpenAIEncoder",
    },
    "backends": {
        "llamacpp": "hammingmark.backends.llamacpp:LlamaCppBackend",
    },
    "sentence_watermarks": {
        "hamming": "hammingmark.watermarks.sentence.hamming:HammingMark",
    },
    "token_watermarks": {},
    "attacks": {},
}


def names(room: str) -> list[str]:
    """Every name known in a room, ours and those of installed packages, sorted."""
    outside = {point.name for point in entry_points(group=f"hammingmark.{room}")}
    return sorted(set(ROOMS[room]) | outside)


def find(room: str, name: str) -> Any:
    """The part called ``name`` in ``room``, imported now.

    Raises:
        UnknownName: with the nearest known name, if there is one.
    """
    if name in ROOMS[room]:
        module, _, attribute = ROOMS[room][name].partition(":")
        return getattr(import_module(module), attribute)
    for point in entry_points(group=f"hammingmark.{room}"):
        if point.name == name:
            return point.load()
    known = names(room)
    close = get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(known) or "none"
    raise UnknownName(f"No {room.replace('_', ' ')} called {name!r}.{hint} Known: {listed}.")
