"""Every attack on texts that the embedded pair marked: what it keeps, and what is left of the mark.

    python benchmarks/attacks.py --texts 50 --cache FOLDER
    python benchmarks/attacks.py --attacks distance-marian-same boundary-rewrite-other

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from hammingmark.assembly.attacks import load_attack
from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.environment import model_store
from hammingmark.assembly.keys import DEFAULT_METHOD, new_key
from hammingmark.assembly.marking import writer
from hammingmark.assembly.parts import load_splitter
from hammingmark.attacks.adaptive import BoundarySeeking, DistanceSeeking
from hammingmark.attacks.runner import AttackRunner
from hammingmark.evaluation.metrics import found_at
from hammingmark.evaluation.rows import Row, append, read_rows
from hammingmark.generation.generate import GenerationConfig
from hammingmark.keys.config import parameters_of_config
from hammingmark.keys.key import Secret
from hammingmark.models.catalogue import DEFAULT_ENCODER, DEFAULT_GENERATOR
from hammingmark.protocols import Attack, Encoder, Splitter
from hammingmark.records import Attacked, Prompt
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
    print("| " + " | ".join(rows[-1]) + " |")
    for row in rows:
        show({name: row.get(name) for name in rows[-1]})
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


class Bench:
    """The pair, the key, the marked texts, and what is done to them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.splitter = load_splitter()
        self.encoder = Remembering(load_encoder(options.encoder))
        number = f"/{options.key}" if options.key else ""
        secret = Secret(hashlib.sha256(f"benchmarks/attacks{number}".encode()).digest())
        self.key = replace(
            new_key(self.encoder, method=options.method, preset=options.preset), secret=secret
        )
        # What was made with another encoder, rule or length lies elsewhere.
        given = parameters_of_config(type(self.key.config))
        values = [str(getattr(self.key.config, name)) for name in given]
        rule = "-".join([options.method, *values])
        written = "" if options.together == 1 else f"-{options.backend.replace(':', '-')}"
        written += f"-key{options.key}" if options.key else ""
        self.cache = options.cache / (
            f"{self.encoder.fingerprint[:8]}-{rule}-{options.tokens}{written}"
        )
        self.cache.mkdir(parents=True, exist_ok=True)
        (file,) = model_store().ensure("wiki100").glob("*.jsonl")
        articles = [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()]
        cut = [self.splitter.split(each).carrying for each in articles]
        self.human = [s for each in cut for s in each[20:40]]
        self.prompts = [
            " ".join(each[:2])
            for each in cut
            if len(each) >= 20 and all(len(s) > 40 for s in each[:2])
        ]
        first = 60 * options.key % len(self.prompts)  # another key begins with other prompts
        self.prompts = self.prompts[first:] + self.prompts[:first]
        self.texts = self.write()

    @cached_property
    def judge(self) -> Remembering:
        """Says how similar outcomes are."""
        return Remembering(load_encoder(JUDGE))

    @cached_property
    def other(self) -> Remembering:
        """What an attacker has who does not know the watermark's encoder."""
        return Remembering(load_encoder(OTHER))

    def write(self) -> list[str]:
        """The marked texts, from the folder or anew."""
        file = self.cache / "marked.jsonl"
        known = read_rows(file)
        if len(known) < self.options.texts:
            backend = load_backend(self.options.backend)
            limits = GenerationConfig(max_tokens=self.options.tokens)
            made = writer(self.key, backend=backend, encoder=self.encoder, config=limits)
            prompts = [Prompt(p) for p in (self.prompts * self.options.texts)[: self.options.texts]]
            while (first := len(known)) < len(prompts):
                if self.options.together == 1:
                    generations = [made.write(prompts[first], seed=first)]
                else:
                    some = prompts[first : first + self.options.together]
                    generations = made.write_many(some, seed=0, first=first)
                new = [{"text": generation.text} for generation in generations]
                append(file, new)
                known += new
        return [row["text"] for row in known[: self.options.texts]]

    def untouched(self) -> Row:
        """How often the mark is found before anything is done."""
        return {"attack": "none", "texts": len(self.texts), **self.found(self.texts)}

    def run(self, name: str, bound: float | None = None) -> Row:
        """One attack on all texts; ``bound`` is for attackers who choose among versions."""
        o = self.options
        how = "" if bound is None else f"-{o.versions}-{o.rounds}-{bound:g}"
        how += f"-by-{o.rewriter.replace(':', '-')}" if "rewrite" in name else ""
        file = self.cache / f"{name}{how}-{o.batch}.jsonl"
        done = read_rows(file)[: len(self.texts)]
        if any(row["of"] != digest(text) for row, text in zip(done, self.texts, strict=False)):
            raise SystemExit(f"{file} was made of other texts; move it away.")
        for batch, seconds in self.outcomes(name, bound, done=len(done)):
            new = [
                {"of": digest(text), **asdict(each), "seconds": seconds}
                for each, text in zip(batch, self.texts[len(done) :], strict=False)
            ]
            append(file, new)
            done += new
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

    def outcomes(
        self, name: str, bound: float | None, *, done: int
    ) -> Iterator[tuple[list[Attacked], float]]:
        """Batches and seconds a text, with the dice that a batch has in an unbroken run."""
        batch = 1 if name == "prompt" else self.options.batch  # each text has a prompt of its own
        attack = None
        for first in range(done - done % batch, len(self.texts), batch):
            if attack is None or name == "prompt":
                attack = self.attack(name, bound, first)
            runner = AttackRunner(attack, self.splitter, self.judge, batch=batch)
            some = self.texts[first : first + batch]
            began = perf_counter()
            (made,) = runner.batches(some, first=first // batch)
            seconds = perf_counter() - began
            if isinstance(inner := getattr(attack, "inner", None), Remembered):
                seconds += inner.saved
                inner.saved = 0.0
            yield made[max(0, done - first) :], seconds / len(made)

    def attack(self, name: str, bound: float | None, number: int) -> Attack:
        """An attack, with what it needs beside its defaults for a text of this number."""
        if bound is not None:
            kind, inner, known = name.split("-")
            return KINDS[kind](
                inner=self.inner(inner),
                splitter=self.splitter,
                encoder=self.encoder if known == "same" else self.other,
                judge=self.judge,
                versions=self.options.versions,
                rounds=self.options.rounds,
                min_similarity=bound,
            )
        name, _, share = name.partition("@")
        attack, variant = VARIANTS.get(name, (name, {}))
        more = {**variant, **({"share": share} if share else {})}
        if attack in ("insert-sentences", "copy-paste"):
            more["pool"] = self.human
        elif attack == "prompt":
            more["prompt"] = self.prompts[number % len(self.prompts)]
        elif attack == "infill-causal":
            (model,) = model_store().ensure("smollm2").glob("*.gguf")
            more["model"] = str(model)
        elif attack == "rewrite":
            more["backend"] = self.options.rewriter
        return load_attack(attack, splitter=self.splitter, parameters=more)

    def inner(self, name: str) -> Remembered:
        """What makes versions, kept in the folder."""
        attack, settings = INNER[name]
        if attack == "rewrite":
            settings = {**settings, "backend": self.options.rewriter}
        return Remembered(
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


@dataclass
class Remembered:
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


class Remembering:
    """An encoder that embeds no sentence twice."""

    def __init__(self, encoder: Encoder) -> None:
        self.name, self.dimension = encoder.name, encoder.dimension
        self.fingerprint = encoder.fingerprint
        self._encoder = encoder
        self._rows: dict[str, Any] = {}

    def encode(self, sentences: Sequence[str]) -> Any:
        """As the encoder does."""
        new = list(dict.fromkeys(s for s in sentences if s not in self._rows))
        if new:
            self._rows.update(zip(new, self._encoder.encode(new), strict=True))
        if not sentences:
            return self._encoder.encode([])
        return np.stack([self._rows[s] for s in sentences])


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


def show(row: Row) -> None:
    """One line of the table."""
    values = [
        "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
        for value in row.values()
    ]
    print("| " + " | ".join(values) + " |", flush=True)


if __name__ == "__main__":
    main()
