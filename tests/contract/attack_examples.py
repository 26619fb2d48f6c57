"""What each attack is given in the contract suite, and what it promises about chance.

Models are tiny ones of the right architecture, made here; only Bergamot's are real, since they come
with the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.unit.attacks import lexicon

from hammingmark.protocols import FloatArray
from hammingmark.records import Candidate, Request, Sampling

Settings = Mapping[str, object]
POOL = ["Copper rose in London.", "Nobody had asked for tea.", "It snowed in March."]


class Letters:
    """Each sentence as its counts of letters."""

    name, dimension, fingerprint = "letters", 27, "ab" * 32

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        rows = np.array(
            [[1, *(s.lower().count(chr(97 + i)) for i in range(26))] for s in sentences], np.float32
        ).reshape(-1, 27)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@dataclass
class Shuffling:
    """A chat model that answers with the words of the sentence in an order drawn from the seed."""

    name: str = "shuffling"
    parallel: int = 3
    width: int = 1
    waiting: list[Request] = field(default_factory=list)

    def open(self, sampling: Sampling) -> Shuffling:
        return self

    def submit(self, request: Request) -> None:
        self.waiting.append(request)

    def cancel(self, number: int) -> None:
        raise AssertionError("nothing is to be cancelled")

    def wait(self) -> list[Candidate]:
        request = self.waiting.pop()
        words = request.prompt.messages[-1].content.rsplit("Sentence: ", 1)[-1].split()
        order = np.random.default_rng(request.seed).permutation(len(words))
        text = " ".join(words[place] for place in order)
        return [Candidate(request.number, (text,), finished=True, cut=False)]

    def close(self) -> None:
        pass


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
    return {"inner": "typos", "encoder": Letters(), "min_similarity": -1.0}


GIVEN: Mapping[str, Callable[[Path], Settings]] = {
    "marian": _marian,
    "parrot": _tiny("t5", beams=2, max_length=12),
    "pegasus": _tiny("pegasus", beams=2),
    "dipper": _tiny("t5", tokenizer=None, max_length=12),
    "infill-masked": _tiny("bert", candidates=3),
    "infill-causal": _tiny("gpt2", candidates=3),
    "rewrite": lambda folder: {"backend": Shuffling()},
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
