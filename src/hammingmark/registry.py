"""Component names and their classes, which are imported on lookup.

Each table lists components as ``"module:attribute"`` strings, so listing them imports nothing. An
installed package adds components through the entry-point group ``hammingmark.<table>``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points, requires
from importlib.util import find_spec
from typing import Any

from hammingmark.errors import (
    BackendError,
    HammingMarkError,
    UnknownName,
    did_you_mean,
    nearest_name,
)

TABLES: Mapping[str, Mapping[str, str]] = {
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


def names(table: str) -> list[str]:
    """All names of a table, ours and those of installed packages, sorted."""
    external = {point.name for point in entry_points(group=f"hammingmark.{table}")}
    return sorted(set(TABLES[table]) | external)


def find(table: str, name: str) -> Any:
    """Import the component with this name in a table.

    Raises:
        UnknownName: no component has this name; the error suggests the nearest one, if any is near.
    """
    if name in TABLES[table]:
        module, _, attribute = TABLES[table][name].partition(":")
        return getattr(import_module(module), attribute)
    for point in entry_points(group=f"hammingmark.{table}"):
        if point.name == name:
            return point.load()
    available = names(table)
    listing = ", ".join(available) or "none"
    raise UnknownName(
        f"Unknown {table.removesuffix('s')} {name!r}.{did_you_mean(name, available)} "
        f"Available: {listing}.",
        name=name,
        suggestion=nearest_name(name, available),
    )


def require_libraries(
    names: Sequence[str],
    *,
    part: str,
    extra: str,
    error: type[HammingMarkError] = BackendError,
) -> None:
    """Refuse a component whose libraries are not installed, without importing them.

    Args:
        names: top-level names of the libraries.
        part: what needs them, as the beginning of a sentence.
        extra: the extra of this package that has them; empty if none does.
        error: the class of the error.

    Raises:
        HammingMarkError: a library is missing.
    """
    missing = [name.replace("_", "-") for name in names if find_spec(name) is None]
    if missing:
        requirements = " ".join(_requirements(extra) or missing)
        raise error(f"{part} needs {_enumerate(missing)}. Install with: pip install {requirements}")


def _requirements(extra: str) -> list[str]:
    """The libraries of an extra as arguments of pip, wherever this package was installed from."""
    try:
        lines = requires("hammingmark") or []
    except PackageNotFoundError:  # run from its source
        lines = []
    condition = re.compile(rf"extra == ['\"]{extra}['\"]")
    entries = [line.partition(";") for line in lines if condition.search(line)]
    return [
        f"'{requirement.strip()}'"
        for requirement, _, marker in entries
        if "python_version" not in marker or sys.version_info < (3, 11)
    ]


def _enumerate(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
