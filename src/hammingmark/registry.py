"""Names to parts, looked up late.

Each room lists its parts as ``"module:attribute"`` strings, so that naming a part costs no
import. An installed package adds one through the entry-point group ``hammingmark.<room>``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from hammingmark.errors import (
    BackendError,
    HammingMarkError,
    UnknownName,
    did_you_mean,
    nearest_name,
)

ROOMS: Mapping[str, Mapping[str, str]] = {
    "splitters": {
        "sentencex": "hammingmark.text.sentencex:SentencexSplitter",
        "punkt": "hammingmark.text.punkt:PunktSplitter",
    },
    "encoders": {
        "onnx": "hammingmark.encoders.onnx:OnnxEncoder",
        "static": "hammingmark.encoders.static:StaticEncoder",
        "sbert": "hammingmark.encoders.sbert:SbertEncoder",
        "openai": "hammingmark.encoders.openai:OpenAIEncoder",
    },
    "backends": {
        "llamacpp": "hammingmark.backends.llamacpp:LlamaCppBackend",
        "openai": "hammingmark.backends.openai:OpenAIBackend",
        "transformers": "hammingmark.backends.transformers:TransformersBackend",
    },
    "tokenizers": {
        "transformers": "hammingmark.backends.tokenizer:TransformersTokenizer",
    },
    "methods": {
        "bilinear": "hammingmark.watermarks.bilinear:BilinearMark",
        "continuous": "hammingmark.watermarks.continuous:ContinuousMark",
        "hamming": "hammingmark.watermarks.hamming:HammingMark",
        "kgw": "hammingmark.watermarks.kgw:KGW",
        "k-semstamp": "hammingmark.watermarks.k_semstamp:KSemStamp",
        "morphmark": "hammingmark.watermarks.morphmark:MorphMark",
        "pmark-offline": "hammingmark.watermarks.pmark_offline:PMarkOffline",
        "pmark-online": "hammingmark.watermarks.pmark_online:PMarkOnline",
        "random-code": "hammingmark.watermarks.random_code:RandomCode",
        "semstamp": "hammingmark.watermarks.semstamp:SemStamp",
        "simmark": "hammingmark.watermarks.simmark:SimMark",
        "sir": "hammingmark.watermarks.sir:SIR",
        "synthid": "hammingmark.watermarks.synthid:SynthIDMark",
    },
    "attacks": {
        "marian": "hammingmark.attacks.translate:MarianRoundTrip",
        "bergamot": "hammingmark.attacks.translate:BergamotRoundTrip",
        "parrot": "hammingmark.attacks.paraphrase:Parrot",
        "pegasus": "hammingmark.attacks.paraphrase:Pegasus",
        "dipper": "hammingmark.attacks.dipper:Dipper",
        "rewrite": "hammingmark.attacks.rewrite:Rewrite",
        "infill-masked": "hammingmark.attacks.infill:MaskedInfill",
        "infill-causal": "hammingmark.attacks.infill:CausalInfill",
        "delete-words": "hammingmark.attacks.words:DeleteWords",
        "insert-words": "hammingmark.attacks.words:InsertWords",
        "swap-words": "hammingmark.attacks.words:SwapWords",
        "typos": "hammingmark.attacks.spelling:Typos",
        "homoglyphs": "hammingmark.attacks.spelling:Homoglyphs",
        "case": "hammingmark.attacks.spelling:Case",
        "contractions": "hammingmark.attacks.contractions:Contractions",
        "synonyms": "hammingmark.attacks.synonyms:Synonyms",
        "delete-sentences": "hammingmark.attacks.sentences:DeleteSentences",
        "insert-sentences": "hammingmark.attacks.sentences:InsertSentences",
        "duplicate-sentences": "hammingmark.attacks.sentences:DuplicateSentences",
        "shuffle-sentences": "hammingmark.attacks.sentences:ShuffleSentences",
        "merge-sentences": "hammingmark.attacks.boundaries:MergeSentences",
        "split-sentences": "hammingmark.attacks.boundaries:SplitSentences",
        "truncate": "hammingmark.attacks.document:Truncate",
        "copy-paste": "hammingmark.attacks.document:CopyPaste",
        "prompt": "hammingmark.attacks.document:LeftPrompt",
        "distance-seeking": "hammingmark.attacks.adaptive:DistanceSeeking",
        "boundary-seeking": "hammingmark.attacks.adaptive:BoundarySeeking",
    },
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
    listed = ", ".join(known) or "none"
    kind = room.replace("_", " ").removesuffix("s")
    raise UnknownName(
        f"No {kind} called {name!r}.{did_you_mean(name, known)} Known: {listed}.",
        name=name,
        suggestion=nearest_name(name, known),
    )


def require_libraries(
    names: Sequence[str],
    *,
    part: str,
    get: str,
    error: type[HammingMarkError] = BackendError,
) -> None:
    """Refuse a part whose libraries are not installed; nothing is imported.

    Args:
        names: what is imported, by its top-level name.
        part: what needs them, as the beginning of a sentence.
        get: what to give to ``pip install``; empty for the libraries themselves.
        error: what is raised.

    Raises:
        HammingMarkError: one of them is missing.
    """
    missing = [name.replace("_", "-") for name in names if find_spec(name) is None]
    if missing:
        wanted = f"'{get}'" if get else " ".join(missing)
        raise error(
            f"{part} needs {_listed(missing)}, which cannot be found. Install with: "
            f"pip install {wanted}"
        )


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
