"""Every attack on texts that the embedded pair marked: what it keeps, and what is left of the mark.

    python -m research.studies.attacks --texts 50 --cache FOLDER
    python -m research.studies.attacks --attacks distance-marian-same boundary-rewrite-other

The marked texts are written once and kept in the folder, and so is the outcome of each attack, so
that a run that breaks off goes on where it was. The key is known to everybody: a benchmark's.
Similarity is judged by an encoder that the mark does not use.

``NAME@SHARE`` is an attack with another share than its default.
``distance-INNER-KNOWN`` and ``boundary-INNER-KNOWN`` are attackers who choose among versions of
each sentence. INNER makes the versions; KNOWN says whether they are compared by the watermark's
encoder (``same``) or by another, which is not the judge's either.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.environment import model_store
from hammingmark.assembly.keys import DEFAULT_METHOD
from hammingmark.assembly.parts import load_attack, load_splitter
from hammingmark.attacks.adaptive import BoundarySeeking, DistanceSeeking
from hammingmark.encoders.wrappers import CachedEncoder
from hammingmark.evaluation import stages
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.evaluation.keys import ExperimentKeys
from hammingmark.evaluation.metrics import found_at
from hammingmark.evaluation.progress import shown
from hammingmark.evaluation.prompts import openings
from hammingmark.evaluation.rows import Row
from hammingmark.evaluation.tables import Column, tabulate
from hammingmark.generation.config import GenerationConfig
from hammingmark.keys.key import Secret
from hammingmark.models.catalogue import DEFAULT_ENCODER, DEFAULT_GENERATOR
from hammingmark.protocols import Attack, Encoder, Splitter
from hammingmark.watermarks._shared.similarity import pair_cosines
from hammingmark.watermarks.hamming.theory import match_probability

Settings = Mapping[str, object]

WORDS = ("delete-words", "insert-words", "swap-words", "typos", "homoglyphs", "case",
         "contractions", "synonyms")  # fmt: skip
SENTENCES = ("delete-sentences", "insert-sentences", "duplicate-sentences", "shuffle-sentences",
             "merge-sentences", "split-sentences", "truncate", "copy-paste", "prompt")  # fmt: skip
MODELS = ("bergamot", "marian", "marian-paragraph", "marian-sampled", "infill-causal", "rewrite",
          "rewrite-document")  # fmt: skip
VARIANTS: Mapping[str, tuple[str, Settings]] = {
    "marian-paragraph": ("marian", {"scope": "paragraph"}),
    "marian-sampled": ("marian", {"temperature": 0.7}),
    "rewrite-document": ("rewrite", {"scope": "document"}),
}
KINDS: Mapping[str, type[DistanceSeeking | BoundarySeeking]] = {
    "distance": DistanceSeeking,
    "boundary": BoundarySeeking,
}
INNER: Mapping[str, tuple[str, Settings]] = {
    "synonyms": ("synonyms", {"share": 0.5, "sure": 0.0, "senses": 3}),
    "marian": ("marian", {"temperature": 0.7, "batch": 256}),
    "rewrite": ("rewrite", {}),
}
"""What makes versions of a sentence for an attacker who chooses among them."""
SEEKING = tuple(f"{kind}-{inner}-{known}" for inner in INNER for kind in KINDS
                for known in ("same", "other"))  # fmt: skip
JUDGE, OTHER = "bge-small", "minilm"


def arguments(description: str) -> argparse.ArgumentParser:
    """What every benchmark of attacks can be told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--cache", type=Path, default=Path("attacked"))
    parser.add_argument("--method", default=DEFAULT_METHOD, help="of the key")
    parser.add_argument("--encoder", default=DEFAULT_ENCODER, help="the watermark's")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--backend", default=DEFAULT_GENERATOR, help="writes the marked texts")
    parser.add_argument("--together", type=int, default=1, help="texts written side by side (1)")
    parser.add_argument("--rewriter", default="qwen-coder", help="backend of the rewriting attack")
    parser.add_argument("--edits", action="store_true", help="the detector allows for edits")
    parser.add_argument("--key", type=int, default=0, metavar="N", help="number of the key (0)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def main() -> None:
    parser = arguments(str(__doc__).partition("\n")[0])
    everything = [*WORDS, *SENTENCES, *MODELS, *SEEKING]
    parser.add_argument("--attacks", nargs="*", default=everything, metavar="NAME")
    parser.add_argument("--batch", type=int, default=1, help="texts attacked at once")
    parser.add_argument("--versions", type=int, default=16, help="to choose among (16)")
    parser.add_argument("--rounds", type=int, default=1, help="of choosing (1)")
    parser.add_argument(
        "--min-similarity", type=float, nargs="+", default=[0.8], help="their bounds (0.8)"
    )
    options = parser.parse_args()
    bench = Bench(options)
    rows = [bench.untouched()]
    for name in options.attacks:
        bounds = options.min_similarity if name in SEEKING else [None]
        rows += [bench.run(name, bound) for bound in bounds]
    made = tabulate(rows, [Column(name, name) for name in rows[-1]])
    print(made.markdown(), end="")
    if options.json:
        options.json.write_text(made.json(), encoding="utf-8")


@dataclass(frozen=True)
class StudyKeys(ExperimentKeys):
    """The keys of the published tables."""

    def secret(self, number: int) -> Secret:
        """That of the first key has no number."""
        of = f"/{number}" if number else ""
        return Secret(hashlib.sha256(f"benchmarks/attacks{of}".encode()).digest())


class Bench:
    """The pair, the key, the marked texts, and what is done to them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.splitter = load_splitter()
        self.encoder = CachedEncoder(load_encoder(options.encoder))
        self.keys = StudyKeys(self.encoder)
        self.point = f"{options.method}/{options.preset}"
        key = self.keys.key(self.point, options.key)
        assert key is not None
        self.key = key
        written_by = options.backend.replace(":", "-").replace("/", "-")
        self.cache = options.cache / (
            f"{self.encoder.fingerprint[:8]}-{self.point.replace('/', '-')}-{options.tokens}"
            f"-{written_by}-key{options.key}"
        )
        documents = load_corpus("wiki100")
        self.human = [
            sentence
            for document in documents
            for sentence in self.splitter.split(document.text).carrying[20:40]
        ]
        prompts = openings(documents, self.splitter, sentences=2, characters=41, following=18)
        first = 60 * options.key % len(prompts)  # another key begins with other prompts
        prompts = prompts[first:] + prompts[:first]
        self.prompts = (prompts * (options.texts // len(prompts) + 1))[: options.texts]
        self.rows = self.write()
        self.texts = [str(row["text"]) for row in self.rows]

    @cached_property
    def judge(self) -> CachedEncoder:
        """Says how similar outcomes are."""
        return CachedEncoder(load_encoder(JUDGE))

    @cached_property
    def other(self) -> CachedEncoder:
        """What an attacker has who does not know the watermark's encoder."""
        return CachedEncoder(load_encoder(OTHER))

    def write(self) -> list[Row]:
        """The marked texts, from the folder or anew."""
        return stages.write(
            self.prompts,
            point=self.point,
            number=self.options.key,
            keys=self.keys,
            backend=load_backend(self.options.backend),
            splitter=self.splitter,
            config=GenerationConfig(max_tokens=self.options.tokens),
            path=self.cache / "marked.jsonl",
            batch=self.options.together,
            progress=shown,
        )

    def untouched(self) -> Row:
        """How often the mark is found before anything is done."""
        return {"attack": "none", "texts": len(self.texts), **self.found(self.texts)}

    def run(self, name: str, bound: float | None = None) -> Row:
        """One attack on all texts; ``bound`` is for attackers who choose among versions."""
        o = self.options
        parameters: dict[str, object] = {}
        if bound is not None:
            parameters = {"versions": o.versions, "rounds": o.rounds, "bound": bound}
        if "rewrite" in name:
            parameters["rewriter"] = o.rewriter
        inner = self.inner(name.split("-")[1]) if bound is not None else None
        done = stages.attack(
            self.rows,
            name=name,
            load=lambda: self.attack(name, bound, inner),
            splitter=self.splitter,
            parameters=parameters,
            judge=self.judge,
            path=self.cache / f"{name}.jsonl",
            batch=o.batch,
            # Versions that are kept took the time that they would take now.
            clock=lambda: perf_counter() + (inner.saved if inner else 0.0),
            progress=shown,
        )
        sentences = sum(len(self.splitter.split(text).carrying) for text in self.texts)
        kept = [row for row in done if row["kept"] is not False]
        return {
            "attack": name,
            "min_similarity": bound,
            "texts": len(done),
            "similarity": float(np.mean([row["similarity"] for row in done])),
            "words_changed": float(np.mean([row["words_changed"] for row in done])),
            "within_bound": len(kept) / len(done),
            "bits_flipped": flipped(
                self.texts, [row["text"] for row in done], self.encoder, self.splitter
            ),
            "seconds_per_sentence": sum(row["seconds"] for row in done) / sentences,
            **self.found([row["text"] for row in done]),
            "missed_within_bound": self.missed([row["text"] for row in kept]) / len(done),
        }

    def attack(self, name: str, bound: float | None, inner: KeptVersions | None) -> Attack:
        """An attack, with what it needs beside its defaults."""
        if bound is not None and inner is not None:
            kind, _, known = name.split("-")
            return KINDS[kind](
                inner=inner,
                splitter=self.splitter,
                encoder=self.encoder if known == "same" else self.other,
                judge=self.judge,
                versions=self.options.versions,
                rounds=self.options.rounds,
                min_similarity=bound,
            )
        if name == "prompt":
            prompts = {row["text"]: row["prompt"] for row in self.rows}
            return OwnPrompts(prompts, self.splitter)
        name, _, share = name.partition("@")
        attack, variant = VARIANTS.get(name, (name, {}))
        more = {**variant, **({"share": share} if share else {})}
        if attack in ("insert-sentences", "copy-paste"):
            more["pool"] = self.human
        elif attack == "infill-causal":
            (model,) = model_store().ensure("smollm2").glob("*.gguf")
            more["model"] = str(model)
        elif attack == "rewrite":
            more["backend"] = self.options.rewriter
        return load_attack(attack, splitter=self.splitter, parameters=more)

    def inner(self, name: str) -> KeptVersions:
        """What makes versions, kept in the folder."""
        attack, settings = INNER[name]
        if attack == "rewrite":
            settings = {**settings, "backend": self.options.rewriter}
        return KeptVersions(
            name,
            lambda: load_attack(attack, splitter=self.splitter, parameters=settings),
            self.cache / "versions" / f"{name}-{digest(json.dumps(settings, sort_keys=True))[:8]}",
        )

    def found(self, texts: list[str]) -> Row:
        """How often the mark is found by the exact test, and the evidence."""
        found = self.p_values(texts)
        return {
            "found@1%": found_at(found, 0.01),
            "found@5%": found_at(found, 0.05),
            "bits": float(np.mean(np.log2(1.0 / np.array(found)))),
        }

    def missed(self, texts: list[str]) -> int:
        """How many texts hide their mark at 1 %."""
        return sum(p > 0.01 for p in self.p_values(texts))

    def p_values(self, texts: list[str]) -> list[float]:
        """Exact ones, 1 for a text that is too short."""
        judge = detector(
            self.key,
            encoder=self.encoder,
            splitter=self.splitter,
            topic="free" if self.options.method == "hamming" else None,
            edits=self.options.edits,
        )
        found = (verdict.p_value for verdict in judge.judge_many(texts))
        return [1.0 if p is None else p for p in found]


@dataclass(frozen=True)
class OwnPrompts:
    """The attack ``prompt``, which puts in front of each text the prompt that it answers."""

    prompts: Mapping[str, str]
    splitter: Splitter
    name: str = "prompt"
    min_similarity: float = 0.9

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """Attack each text."""
        return [
            load_attack(
                "prompt", splitter=self.splitter, parameters={"prompt": self.prompts[text]}
            ).apply([text], rng=rng)[0]
            for text in texts
        ]


@dataclass
class KeptVersions:
    """An attack whose outcomes are kept in a folder, by the texts and the dice they came from."""

    name: str
    load: Callable[[], Attack]
    folder: Path
    min_similarity: float = -1.0
    saved: float = 0.0
    """Seconds that outcomes would have taken, had they not been kept."""

    @cached_property
    def attack(self) -> Attack:
        """Loaded when there is something to do."""
        return self.load()

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """What it made of these texts with these dice, now or before."""
        asked = json.dumps([self.name, list(texts), rng.bit_generator.state])
        file = self.folder / f"{hashlib.sha256(asked.encode()).hexdigest()[:16]}.json"
        known = file.exists()
        if not known:
            began = perf_counter()
            made = self.attack.apply(texts, rng=rng)
            seconds, dice = perf_counter() - began, rng.bit_generator.state
            self.folder.mkdir(parents=True, exist_ok=True)
            generation = file.with_suffix(".partial")
            generation.write_text(json.dumps({"texts": made, "seconds": seconds, "dice": dice}))
            generation.replace(file)
        kept = json.loads(file.read_text())
        rng.bit_generator.state = kept["dice"]
        self.saved += kept["seconds"] if known else 0.0
        return list(kept["texts"])


def flipped(
    before: list[str], after: list[str], encoder: Encoder, splitter: Splitter
) -> float | None:
    """Share of bits, over keys, that changed; None where few texts kept their sentences' number."""
    pairs = [
        (splitter.split(old).carrying, splitter.split(new).carrying)
        for old, new in zip(before, after, strict=True)
    ]
    whole = [(old, new) for old, new in pairs if len(old) == len(new)]
    if len(whole) < len(pairs) / 4:
        return None
    one = encoder.encode([s for old, _ in whole for s in old])
    other = encoder.encode([s for _, new in whole for s in new])
    return float(1.0 - match_probability(pair_cosines(one, other)).mean())


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    main()
