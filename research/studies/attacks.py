"""Attacks on texts marked by the default models: the meaning kept and the evidence left.

    python -m research.studies.attacks --texts 50 --cache FOLDER
    python -m research.studies.attacks --attacks distance-marian-same boundary-rewrite-other

The marked texts and the outcomes of each attack are stored in the folder, so that an interrupted
run can be resumed. The key is a public one. Similarity is measured by an encoder that the mark does
not use.

``NAME@SHARE`` is an attack with a share other than its default.
``distance-INNER-KNOWN`` and ``boundary-INNER-KNOWN`` are attackers who choose among versions of
each sentence. INNER makes the versions; KNOWN tells whether they are compared by the watermark's
encoder (``same``) or by another one (``other``), which is not the judge either.
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
"""The attacks that make versions of a sentence for an attacker who chooses among them."""
SEEKING = tuple(f"{kind}-{inner}-{known}" for inner in INNER for kind in KINDS
                for known in ("same", "other"))  # fmt: skip
JUDGE, OTHER = "bge-small", "minilm"


def arguments(description: str) -> argparse.ArgumentParser:
    """The options common to the studies of attacks."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--cache", type=Path, default=Path("attacked"))
    parser.add_argument("--method", default=DEFAULT_METHOD, help="of the key")
    parser.add_argument("--encoder", default=DEFAULT_ENCODER, help="the watermark's")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--backend", default=DEFAULT_GENERATOR, help="model of the marked texts")
    parser.add_argument("--together", type=int, default=1, help="texts written side by side (1)")
    parser.add_argument("--rewriter", default="qwen-coder", help="backend of the rewriting attack")
    parser.add_argument("--edits", action="store_true", help="detect with edits")
    parser.add_argument("--key", type=int, default=0, metavar="N", help="number of the key (0)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def main() -> None:
    parser = arguments(str(__doc__).partition("\n")[0])
    everything = [*WORDS, *SENTENCES, *MODELS, *SEEKING]
    parser.add_argument("--attacks", nargs="*", default=everything, metavar="NAME")
    parser.add_argument("--batch", type=int, default=1, help="texts attacked at once")
    parser.add_argument("--versions", type=int, default=16, help="versions of a sentence (16)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of rewriting (1)")
    parser.add_argument(
        "--min-similarity",
        type=float,
        nargs="+",
        default=[0.8],
        help="of versions (0.8)",
    )
    options = parser.parse_args()
    bench = Bench(options)
    rows = [bench.untouched()]
    for name in options.attacks:
        bounds = options.min_similarity if name in SEEKING else [None]
        rows += [bench.run(name, bound) for bound in bounds]
    table = tabulate(rows, [Column(name, name) for name in rows[-1]])
    print(table.markdown(), end="")
    if options.json:
        options.json.write_text(table.json(), encoding="utf-8")


@dataclass(frozen=True)
class StudyKeys(ExperimentKeys):
    """The keys of the published tables."""

    def secret(self, number: int) -> Secret:
        """The secret of a number; the first is derived without it."""
        suffix = f"/{number}" if number else ""
        return Secret(hashlib.sha256(f"benchmarks/attacks{suffix}".encode()).digest())


class Bench:
    """The models, the key, the marked texts, and attacks on them."""

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
        """The encoder that measures the similarity of outcomes."""
        return CachedEncoder(load_encoder(JUDGE))

    @cached_property
    def other(self) -> CachedEncoder:
        """The encoder of an attacker who does not know the watermark's."""
        return CachedEncoder(load_encoder(OTHER))

    def write(self) -> list[Row]:
        """The marked texts, read from the folder or written."""
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
        """Detection of the marked texts before any attack."""
        return {"attack": "none", "texts": len(self.texts), **self.detection(self.texts)}

    def run(self, name: str, bound: float | None = None) -> Row:
        """Run one attack on all texts; ``bound`` is for attackers who choose among versions."""
        o = self.options
        parameters: dict[str, object] = {}
        if bound is not None:
            parameters = {"versions": o.versions, "rounds": o.rounds, "bound": bound}
        if "rewrite" in name:
            parameters["rewriter"] = o.rewriter
        inner = self.inner(name.split("-")[1]) if bound is not None else None
        outcomes = stages.attack(
            self.rows,
            name=name,
            load=lambda: self.attack(name, bound, inner),
            splitter=self.splitter,
            parameters=parameters,
            judge=self.judge,
            path=self.cache / f"{name}.jsonl",
            batch=o.batch,
            # Count the time of stored versions, too.
            clock=lambda: perf_counter() + (inner.saved if inner else 0.0),
            progress=shown,
        )
        sentences = sum(len(self.splitter.split(text).carrying) for text in self.texts)
        kept = [row for row in outcomes if row["kept"] is not False]
        return {
            "attack": name,
            "min_similarity": bound,
            "texts": len(outcomes),
            "similarity": float(np.mean([row["similarity"] for row in outcomes])),
            "words_changed": float(np.mean([row["words_changed"] for row in outcomes])),
            "within_bound": len(kept) / len(outcomes),
            "bits_flipped": flipped(
                self.texts, [row["text"] for row in outcomes], self.encoder, self.splitter
            ),
            "seconds_per_sentence": sum(row["seconds"] for row in outcomes) / sentences,
            **self.detection([row["text"] for row in outcomes]),
            "missed_within_bound": self.missed([row["text"] for row in kept]) / len(outcomes),
        }

    def attack(self, name: str, bound: float | None, inner: StoredVersions | None) -> Attack:
        """An attack with its parameters."""
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
        parameters = {**variant, **({"share": share} if share else {})}
        if attack in ("insert-sentences", "copy-paste"):
            parameters["pool"] = self.human
        elif attack == "infill-causal":
            (model,) = model_store().ensure("smollm2").glob("*.gguf")
            parameters["model"] = str(model)
        elif attack == "rewrite":
            parameters["backend"] = self.options.rewriter
        return load_attack(attack, splitter=self.splitter, parameters=parameters)

    def inner(self, name: str) -> StoredVersions:
        """The attack that makes versions, which are stored in the folder."""
        attack, settings = INNER[name]
        if attack == "rewrite":
            settings = {**settings, "backend": self.options.rewriter}
        return StoredVersions(
            name,
            lambda: load_attack(attack, splitter=self.splitter, parameters=settings),
            self.cache / "versions" / f"{name}-{digest(json.dumps(settings, sort_keys=True))[:8]}",
        )

    def detection(self, texts: list[str]) -> Row:
        """The share of texts detected by the exact test, and the mean evidence."""
        values = self.p_values(texts)
        return {
            "found@1%": found_at(values, 0.01),
            "found@5%": found_at(values, 0.05),
            "bits": float(np.mean(np.log2(1.0 / np.array(values)))),
        }

    def missed(self, texts: list[str]) -> int:
        """The number of texts that are not detected at 1 %."""
        return sum(p > 0.01 for p in self.p_values(texts))

    def p_values(self, texts: list[str]) -> list[float]:
        """Exact p-values, 1 for a text that is too short."""
        judge = detector(
            self.key,
            encoder=self.encoder,
            splitter=self.splitter,
            topic="free" if self.options.method == "hamming" else None,
            edits=self.options.edits,
        )
        values = (verdict.p_value for verdict in judge.judge_many(texts))
        return [1.0 if p is None else p for p in values]


@dataclass(frozen=True)
class OwnPrompts:
    """The attack ``prompt``, with the prompt of each text."""

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
class StoredVersions:
    """An attack whose outcomes are stored in a folder, by texts and state of the generator."""

    name: str
    load: Callable[[], Attack]
    folder: Path
    min_similarity: float = -1.0
    saved: float = 0.0
    """Seconds saved by stored outcomes."""

    @cached_property
    def attack(self) -> Attack:
        """The attack, loaded on first use."""
        return self.load()

    def apply(self, texts: Sequence[str], *, rng: np.random.Generator) -> list[str]:
        """The outcomes for these texts and this generator, computed or stored."""
        request = json.dumps([self.name, list(texts), rng.bit_generator.state])
        file = self.folder / f"{hashlib.sha256(request.encode()).hexdigest()[:16]}.json"
        is_stored = file.exists()
        if not is_stored:
            start = perf_counter()
            outcomes = self.attack.apply(texts, rng=rng)
            seconds, state = perf_counter() - start, rng.bit_generator.state
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(".partial")
            partial.write_text(json.dumps({"texts": outcomes, "seconds": seconds, "dice": state}))
            partial.replace(file)
        record = json.loads(file.read_text())
        rng.bit_generator.state = record["dice"]
        self.saved += record["seconds"] if is_stored else 0.0
        return list(record["texts"])


def flipped(
    before: list[str], after: list[str], encoder: Encoder, splitter: Splitter
) -> float | None:
    """Share of flipped bits over keys; None if few texts kept their number of sentences."""
    pairs = [
        (splitter.split(old).carrying, splitter.split(new).carrying)
        for old, new in zip(before, after, strict=True)
    ]
    comparable = [(old, new) for old, new in pairs if len(old) == len(new)]
    if len(comparable) < len(pairs) / 4:
        return None
    first = encoder.encode([s for old, _ in comparable for s in old])
    second = encoder.encode([s for _, new in comparable for s in new])
    return float(1.0 - match_probability(pair_cosines(first, second)).mean())


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    main()
