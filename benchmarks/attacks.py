"""Every attack on texts that the embedded pair marked: what it keeps, and what is left of the mark.

    python benchmarks/attacks.py --texts 60 --cache FOLDER

The marked texts are written once and kept in the folder, and so is the outcome of each attack, so
that a run that breaks off goes on where it was. The key is known to everybody: a benchmark's.
Similarity is judged by an encoder that the mark does not use.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from hammingmark.assemble import (
    DEFAULT_GENERATOR,
    detector,
    load_attack,
    load_backend,
    load_encoder,
    load_splitter,
    model_store,
    new_key,
    writer,
)
from hammingmark.core.theory import match_probability
from hammingmark.evaluation.metrics import found_at
from hammingmark.keys import Secret
from hammingmark.pipeline.attack import AttackRunner
from hammingmark.pipeline.generate import Settings as WritingSettings
from hammingmark.protocols import Encoder, Splitter
from hammingmark.records import Attacked, Prompt, TopicName

Row = dict[str, Any]
Settings = Mapping[str, object]

WORDS = ("delete-words", "insert-words", "swap-words", "typos", "homoglyphs", "case",
         "contractions", "synonyms")  # fmt: skip
SENTENCES = ("delete-sentences", "insert-sentences", "duplicate-sentences", "shuffle-sentences",
             "merge-sentences", "split-sentences", "truncate", "copy-paste", "prompt")  # fmt: skip
MODELS = ("bergamot", "marian", "marian-sampled", "infill-causal", "rewrite", "distance-seeking",
          "boundary-seeking")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--attacks", nargs="*", default=[*WORDS, *SENTENCES, *MODELS])
    parser.add_argument("--cache", type=Path, default=Path("attacked"))
    parser.add_argument("--backend", default=DEFAULT_GENERATOR, help="writes the marked texts")
    parser.add_argument("--rewriter", default="qwen-coder", help="backend of the rewriting attack")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    bench = Bench(options)
    rows = [bench.untouched(), *(bench.run(name) for name in options.attacks)]
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
        self.encoder = load_encoder()
        secret = Secret(hashlib.sha256(b"benchmarks/attacks").digest())
        self.key = replace(new_key(self.encoder), secret=secret)
        # What was made with another encoder, rule or length lies elsewhere.
        rule = f"{self.key.bits}-{self.key.threshold:g}-{self.key.softness:g}-{self.key.fresh}"
        self.cache = options.cache / f"{self.encoder.fingerprint[:8]}-{rule}-{options.tokens}"
        self.cache.mkdir(parents=True, exist_ok=True)
        self.judge = load_encoder("bge-small")
        (file,) = model_store().ensure("wiki100").glob("*.jsonl")
        articles = [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()]
        cut = [self.splitter.split(each).carrying for each in articles]
        self.human = [s for each in cut for s in each[20:40]]
        self.prompts = [
            " ".join(each[:2])
            for each in cut
            if len(each) >= 20 and all(len(s) > 40 for s in each[:2])
        ]
        self.texts = self.write()

    def write(self) -> list[str]:
        """The marked texts, from the folder or anew."""
        file = self.cache / "marked.jsonl"
        known = read(file)
        if len(known) < self.options.texts:
            backend = load_backend(self.options.backend)
            limits = WritingSettings(max_tokens=self.options.tokens)
            made = writer(self.key, backend=backend, encoder=self.encoder, settings=limits)
            for number in range(len(known), self.options.texts):
                prompt = self.prompts[number % len(self.prompts)]
                known.append({"text": made.write(Prompt(prompt), seed=number).text})
                append(file, known[-1])
        return [row["text"] for row in known[: self.options.texts]]

    def untouched(self) -> Row:
        """How often the mark is found before anything is done."""
        return {"attack": "none", "texts": len(self.texts), **self.found(self.texts)}

    def run(self, name: str) -> Row:
        """One attack on all texts."""
        file = self.cache / f"{name}.jsonl"
        done = read(file)[: len(self.texts)]
        if len(done) < len(self.texts):
            began = perf_counter()
            for each in self.outcomes(name, first=len(done)):
                done.append({**asdict(each), "seconds": perf_counter() - began})
                append(file, done[-1])
                began = perf_counter()
        sentences = sum(len(self.splitter.split(text).carrying) for text in self.texts)
        kept = [row for row in done if row["kept"] is not False]
        return {
            "attack": name,
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

    def outcomes(self, name: str, *, first: int) -> Iterator[Attacked]:
        """One text a batch, so that a run can go on anywhere with the dice it would have had."""
        attack = None
        for number in range(first, len(self.texts)):
            if attack is None or name == "prompt":  # each text has its own
                attack = load_attack(
                    name.removesuffix("-sampled"),
                    splitter=self.splitter,
                    settings=self.settings(name, number),
                )
            runner = AttackRunner(attack, self.splitter, self.judge, batch=1)
            for (each,) in runner.batches(self.texts[number : number + 1], first=number):
                yield each

    def settings(self, name: str, number: int) -> Settings:
        """What an attack needs beside its defaults, for a text of this number."""
        if name in ("insert-sentences", "copy-paste"):
            return {"pool": self.human}
        if name == "prompt":
            return {"prompt": self.prompts[number % len(self.prompts)]}
        if name == "marian-sampled":
            return {"temperature": 0.7}
        if name == "rewrite":
            return {"backend": self.options.rewriter}
        if name == "infill-causal":
            (model,) = model_store().ensure("smollm2").glob("*.gguf")
            return {"model": str(model)}
        if name.endswith("-seeking"):
            return {"inner": "synonyms", "encoder": "bge-small", "versions": 6}
        return {}

    def found(self, texts: list[str]) -> Row:
        """How often the mark is found by the exact test, given the topic and free."""
        given, free = self.p_values(texts, "given"), self.p_values(texts, "free")
        return {
            "found@1% given": found_at(given, 0.01),
            "found@1% free": found_at(free, 0.01),
            "found@5% free": found_at(free, 0.05),
            "bits free": float(np.mean(np.log2(1.0 / np.array(free)))),
        }

    def missed(self, texts: list[str]) -> int:
        """How many texts hide their mark from the free test at 1 %."""
        return sum(p > 0.01 for p in self.p_values(texts, "free"))

    def p_values(self, texts: list[str], topic: TopicName) -> list[float]:
        """Exact ones, 1 for a text that is too short."""
        judge = detector(self.key, encoder=self.encoder, splitter=self.splitter, topic=topic)
        found = (verdict.p_value for verdict in judge.judge_many(texts))
        return [1.0 if p is None else p for p in found]


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
    cosine = (one.astype(np.float64) * other).sum(axis=1)
    return float(1.0 - match_probability(cosine).mean())


def read(file: Path) -> list[Row]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def append(file: Path, row: Row) -> None:
    with file.open("a", encoding="utf-8") as sink:
        sink.write(json.dumps(row, ensure_ascii=False) + "\n")


def show(row: Row) -> None:
    """One line of the table."""
    values = [
        "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
        for value in row.values()
    ]
    print("| " + " | ".join(values) + " |", flush=True)


if __name__ == "__main__":
    main()
