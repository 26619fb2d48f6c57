"""What each attack is given in the contract suite, and what it promises about chance.

Models are tiny ones of the right architecture, made here; only Bergamot's are real, since they come
with the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from tests.unit.attacks import lexicon

from hammingmark.records import Request
from hammingmark.testing import FakeBackend, FakeEncoder

Settings = Mapping[str, object]
POOL = ["Copper rose in London.", "Nobody had asked for tea.", "It snowed in March."]


def shuffled(request: Request) -> str:
    """The words of the sentence that was asked about, in an order drawn from the seed."""
    words = request.prompt.messages[-1].content.rsplit("Sentence: ", 1)[-1].split()
    Random(request.seed).shuffle(words)
    return " ".join(words)


def _marian(folder: Path) -> Settings:
    from tests.unit.attacks import tiny

    for seed, name in enumerate(("en-fr", "fr-en"), start=1):
        tiny.marian(folder / name, seed=seed)
    return {"folder": folder}


def _tiny(kind: str, **more: object) -> Callable[[Path], Settings]:
    def make(folder: Path) -> Settings:
        from tests.unit.attacks import tiny

        return {"model": getattr(tiny, kind)(folder), **more}

    return make


def _seeking(folder: Path) -> Settings:
    return {"inner": "typos", "encoder": FakeEncoder(), "min_similarity": -1.0}


GIVEN: Mapping[str, Callable[[Path], Settings]] = {
    "marian": _marian,
    "parrot": _tiny("t5", beams=2, max_length=12),
    "pegasus": _tiny("pegasus", beams=2),
    "dipper": _tiny("t5", tokenizer=None, max_length=12),
    "infill-masked": _tiny("bert", candidates=3),
    "infill-causal": _tiny("gpt2", candidates=3),
    "rewrite": lambda folder: {"backend": FakeBackend(parallel=3, sentences=shuffled)},
    "distance-seeking": _seeking,
    "boundary-seeking": _seeking,
    "synonyms": lambda folder: {"lexicon": lexicon.write(folder), "share": 0.02},
    "insert-sentences": lambda folder: {"pool": POOL},
    "copy-paste": lambda folder: {"pool": POOL},
    "prompt": lambda folder: {"prompt": "Tell me more."},
}
"""Of each attack that must be given something, what; in a folder of its own."""

ROLLS: Mapping[str, Settings] = {
    "case": {"share": 0.5},
    "contractions": {"share": 0.5},
    "marian": {"temperature": 1.0},
}
"""Settings under which an attack draws that leaves nothing to chance by default."""

NEVER_ROLLS = {"prompt", "bergamot", "parrot", "pegasus"}
"""Attacks that leave nothing to chance under any settings."""
