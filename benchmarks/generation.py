"""The cost of marking, as ratios of times measured in the same run.

Absolute times depend on the machine; the ratio of marked to unmarked text is comparable. Run it on
an idle machine::

    python benchmarks/generation.py                                   # embedded models, CPU
    python benchmarks/generation.py --backend transformers:smollm2    # CUDA if available
    python benchmarks/generation.py --json result.json

Prompts are the first two sentences of encyclopedia articles, or of the texts of ``--prompts``. For
the method ``hamming`` the report includes the figures of the paper.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import DEFAULT_METHOD, method_of, new_key
from hammingmark.assembly.parts import load_splitter
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.evaluation.prompts import openings
from hammingmark.evaluation.quality import mean_repetition
from hammingmark.evaluation.scores import cost_figures
from hammingmark.evaluation.stages import generation_row
from hammingmark.generation.generate import PAPER, GenerationConfig, Writer
from hammingmark.keys.key import WatermarkKey
from hammingmark.models.catalogue import DEFAULT_ENCODER, DEFAULT_GENERATOR
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Generation, Prompt
from hammingmark.watermarks.hamming import HammingMark, theory
from hammingmark.watermarks.hamming.pairs import natural_acceptance

PAPER_FIGURES = {"candidates": 2.2, "drawn_tokens": 41.6, "acceptance": 0.58, "fallback": 0.013}
Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default=DEFAULT_GENERATOR)
    parser.add_argument("--method", default=DEFAULT_METHOD, help=f"by default {DEFAULT_METHOD}")
    parser.add_argument("--encoder", default=DEFAULT_ENCODER)
    parser.add_argument("--texts", type=int, default=24, help="texts for each figure")
    parser.add_argument("--tokens", type=int, default=200, help="tokens per text")
    parser.add_argument("--together", type=int, default=64, help="texts written at the same time")
    parser.add_argument(
        "--width", type=int, help="candidates of a text drawn at once, in the wide rounds"
    )
    parser.add_argument("--parallel", type=int, help="candidates of all texts drawn at once")
    parser.add_argument("--prompts", type=Path, help="a JSONL file with a field text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", nargs="*", default=[], choices=["stream", "together", "habits"])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    options = parser.parse_args()
    bench = Bench(options)
    report: Result = {"machine": platform.processor() or platform.machine()}
    for name in ("stream", "together", "habits"):
        if name not in options.skip:
            report[name] = getattr(bench, name)()
            show(name, report[name])
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


class Bench:
    """The components, and the three rounds."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.splitter = load_splitter()
        self.encoder = load_encoder(options.encoder)
        self.key = new_key(self.encoder, method=options.method)
        self.backend = load_backend(options.backend, parallel=options.parallel)
        self.wide = options.width or max(4, self.backend.width)
        self.prompts = read_prompts(options.prompts, self.splitter)
        self.config = GenerationConfig(max_tokens=options.tokens)
        self.write(
            self.prompts[:1], key=None, config=GenerationConfig(max_tokens=8)
        )  # loads, warms up
        self.write(self.prompts[:1], key=self.key, config=GenerationConfig(max_tokens=30))

    def write(
        self,
        prompts: Sequence[Prompt],
        *,
        key: WatermarkKey | None,
        config: GenerationConfig | None = None,
        width: int | None = None,
        one_by_one: bool = True,
    ) -> tuple[list[Generation], float]:
        """Write texts, and measure the seconds."""
        mark = method_of(key) if key else None
        backend = Resized(self.backend, width or self.backend.width)
        text_writer = Writer(backend, self.splitter, self.encoder, mark, config or self.config)
        start = perf_counter()
        if one_by_one:
            generations = [
                text_writer.write(prompt, seed=self.options.seed + number)
                for number, prompt in enumerate(prompts)
            ]
        else:
            generations = text_writer.write_many(prompts, seed=self.options.seed)
        return generations, perf_counter() - start

    def stream(self) -> Result:
        """One text at a time: the speed for a reader."""
        prompts = self.prompts[: self.options.texts]
        pace: dict[str, float] = {}
        costs: Result = {}
        evidence: Result = {}
        for name, key, width in (
            ("unmarked", None, 1),
            ("one candidate at a time", self.key, 1),
            (f"{self.wide} at once", self.key, self.wide),
        ):
            generations, seconds = self.write(prompts, key=key, width=width)
            pace[name] = seconds / max(1, sum(generation.cost.tokens for generation in generations))
            if key is not None:
                costs[name] = figures_of(generations)
            if key is not None and width == 1:
                evidence = limit(generations, self.key, self.encoder, self.splitter)
        base = pace["unmarked"]
        return {
            "tokens_per_second": {name: 1.0 / value for name, value in pace.items()},
            "over_unmarked": {name: value / base for name, value in pace.items()},
            "cost": costs,
            **({"paper": PAPER_FIGURES} if self.options.method == "hamming" else {}),
            "evidence": evidence,
        }

    def together(self) -> Result:
        """Many texts at the same time: the throughput of a service."""
        prompts = [
            self.prompts[number % len(self.prompts)] for number in range(self.options.together)
        ]
        for key in (None, self.key):  # a backend may have to prepare for this many
            self.write(prompts, key=key, width=self.wide, one_by_one=False)
        rates: dict[str, float] = {}
        embedding: dict[str, float] = {}
        for name, key, width in (
            ("unmarked", None, 1),
            ("one candidate at a time", self.key, 1),
            (f"{self.wide} at once", self.key, self.wide),
        ):
            generations, seconds = self.write(prompts, key=key, width=width, one_by_one=False)
            rates[name] = sum(generation.cost.tokens for generation in generations) / seconds
            embedding[name] = (
                sum(generation.cost.encoder_seconds for generation in generations) / seconds
            )
        base = rates["unmarked"]
        return {
            "texts": len(prompts),
            "tokens_per_second": rates,
            "over_unmarked": {name: base / rate for name, rate in rates.items()},
            "time_spent_embedding": embedding,
        }

    def habits(self) -> Result:
        """Settings of the repetition guard and the fallback, and the paper's procedure."""
        prompts = self.prompts[: self.options.texts]
        report: Result = {}
        plain, _ = self.write(prompts, key=None, one_by_one=False)
        baseline = mean_repetition([generation.text for generation in plain])
        report["unmarked"] = {"rep-4": baseline}
        for name, config in {
            "paper": replace(PAPER, max_tokens=self.options.tokens),
            "no guard": replace(self.config, most_repeated=1.0),
            "guard 0.3": replace(self.config, most_repeated=0.3),
            "guard 0.15": replace(self.config, most_repeated=0.15),
            "guard 0": replace(self.config, most_repeated=0.0),
            "last": replace(self.config, fallback="last"),
        }.items():
            generations, _ = self.write(prompts, key=self.key, config=config, one_by_one=False)
            repeated = mean_repetition([generation.text for generation in generations])
            report[name] = {
                "rep-4": repeated,
                "over_unmarked": repeated / baseline if baseline else None,
                **figures_of(generations),
                **limit(generations, self.key, self.encoder, self.splitter),
            }
        return report


class Resized:
    """A backend that draws another number of candidates of one text at once."""

    def __init__(self, backend: Backend, width: int) -> None:
        self.name, self.parallel, self.width = backend.name, backend.parallel, width
        self.open, self.close = backend.open, backend.close
        self.capabilities = backend.capabilities


def figures_of(generations: Sequence[Generation]) -> Result:
    """The cost of a sentence."""
    return dict(cost_figures([generation_row(generation) for generation in generations]))


def limit(
    generations: Sequence[Generation], key: WatermarkKey, encoder: Encoder, splitter: Splitter
) -> Result:
    """The mean evidence log2(1 / p); for ``hamming`` also its upper limit."""
    topic: Literal["free"] | None = "free" if key.config.method == "hamming" else None
    bits, most = [], []
    judge = detector(key, encoder=encoder, splitter=splitter, topic=topic, references=16_000)
    for verdict in judge.judge_many(generation.text for generation in generations):
        if verdict.p_value is None:
            continue
        bits.append(np.log2(1.0 / verdict.p_value))
        if key.config.method == "hamming":
            cosines = np.array([score.details["cosine"] for score in verdict.evidence.scores])
            natural = natural_acceptance(cosines, rule=HammingMark(key).rule)
            most.append(theory.evidence_limit(natural))
    return {
        "bits_found": float(np.mean(bits)),
        **({"bits_at_most": float(np.mean(most))} if most else {}),
        "found_at_1_percent": float(np.mean(np.array(bits) >= np.log2(100.0))),
    }


def read_prompts(path: Path | None, splitter: Splitter) -> list[Prompt]:
    """The first two sentences of each text."""
    documents = load_corpus(str(path) if path else "wiki100")
    return [opening.prompt for opening in openings(documents, splitter, characters=41)]


def show(title: str, values: Result, depth: int = 0) -> None:
    """Print figures as an indented list."""
    print("  " * depth + title)
    for name, value in values.items():
        if isinstance(value, dict):
            show(name, value, depth + 1)
        else:
            text = f"{value:.4g}" if isinstance(value, float) else value
            print("  " * (depth + 1) + f"{name}: {text}", flush=True)


if __name__ == "__main__":
    main()
