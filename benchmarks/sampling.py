"""Sampling settings for marked answers to chats.

Every setting writes marked answers to the same questions under the same keys. One line gives their
cost, their evidence, and their quality: repetition, and perplexity under a second model::

    python benchmarks/sampling.py --out FOLDER
    python benchmarks/sampling.py --out FOLDER --backend transformers:smollm2 --texts 96
    python benchmarks/sampling.py --out FOLDER --judge FILE.gguf      # perplexity of stored answers

Questions are about the subjects of encyclopedia articles, or in the field ``--field`` of the lines
of ``--questions``. Answers are stored in FOLDER and not written again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import DEFAULT_METHOD
from hammingmark.evaluation import stages
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.evaluation.datasets.files import read_records
from hammingmark.evaluation.keys import UNMARKED, ExperimentKeys
from hammingmark.evaluation.progress import shown
from hammingmark.evaluation.prompts import EvaluationPrompt, assign_keys
from hammingmark.evaluation.quality import (
    PretrainedLikelihood,
    mean_repetition,
    measure_likelihood,
    perplexity,
)
from hammingmark.evaluation.rows import Row
from hammingmark.evaluation.scores import cost_figures, exact_scores
from hammingmark.generation.config import GenerationConfig
from hammingmark.models.catalogue import DEFAULT_ENCODER, DEFAULT_GENERATOR
from hammingmark.records import Sampling

SETTINGS = {
    "T 1, top-k 50": Sampling(),
    "T 1, min-p 0.05": Sampling(top_k=0, min_p=0.05),
    "T 1, min-p 0.1": Sampling(top_k=0, min_p=0.1),
    "T 0.8, top-k 50": Sampling(temperature=0.8),
    "T 0.8, min-p 0.05": Sampling(temperature=0.8, top_k=0, min_p=0.05),
    "T 0.8, top-p 0.95": Sampling(temperature=0.8, top_k=0, top_p=0.95),
    "T 0.7, top-p 0.9": Sampling(temperature=0.7, top_k=0, top_p=0.9),
}
KEYS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the answers")
    parser.add_argument("--method", default=DEFAULT_METHOD, help=f"by default {DEFAULT_METHOD}")
    parser.add_argument("--encoder", default=DEFAULT_ENCODER)
    parser.add_argument("--backend", default=DEFAULT_GENERATOR)
    parser.add_argument("--texts", type=int, default=24, help="answers per setting")
    parser.add_argument("--tokens", type=int, default=200, help="most tokens per answer")
    parser.add_argument("--together", type=int, default=24, help="answers written at the same time")
    parser.add_argument("--questions", type=Path, help="a JSON Lines file")
    parser.add_argument("--field", default="input")
    parser.add_argument("--judge", help="model for the perplexity, as transformers loads it")
    options = parser.parse_args()
    questions = assign_keys(read_questions(options)[: options.texts], KEYS)
    keys = ExperimentKeys(load_encoder(options.encoder), name="sampling")
    backend = load_backend(options.backend)
    judge = PretrainedLikelihood(options.judge, separator="\n\n") if options.judge else None
    for point in (options.method, UNMARKED):
        for name, sampling in SETTINGS.items():
            config = GenerationConfig(max_tokens=options.tokens).with_sampling(sampling)
            rows = [
                row
                for number, prompts in questions.items()
                for row in stages.write(
                    prompts,
                    point=point,
                    number=number,
                    keys=keys,
                    backend=backend,
                    config=config,
                    path=options.out / f"{point.replace('/', '-')}-{name.replace(' ', '')}.jsonl",
                    batch=options.together,
                    progress=shown,
                )
            ]
            print(
                f"{name:18} {point:12}", json.dumps(report(rows, keys, options.method)), flush=True
            )
            if judge:
                likelihoods = measure_likelihood(rows, judge, progress=shown)
                result = perplexity(likelihoods, rng=np.random.default_rng(0))
                print(f"{'':31} perplexity {result}", flush=True)


def read_questions(options: argparse.Namespace) -> list[EvaluationPrompt]:
    if options.questions:
        texts = [str(record[options.field]) for record in read_records(options.questions)]
    else:
        subjects = [document.id for document in load_corpus("wiki100")]
        texts = [f"What should everybody know about {subject}, and why?" for subject in subjects]
    return [EvaluationPrompt(str(n), text, chat=True) for n, text in enumerate(texts)]


def report(rows: list[Row], keys: ExperimentKeys, method: str) -> dict[str, object]:
    """The cost of the answers, their evidence under the keys of the method, and their quality."""
    topics = ("free", "given") if method.startswith("hamming") else (None,)
    marked = [{**row, "point": method} for row in rows]
    evidence: dict[str, object] = {}
    for topic in topics:
        judged = stages.detect(
            marked, detector_of=stages.detectors(keys, topic=topic), parameters={"topic": topic}
        )
        scores = exact_scores(judged, levels=[0.01], rounds=400)
        share = scores["found at 0.01"]
        name = f", {topic}" if topic else ""
        evidence[f"bits{name}"] = round(scores["bits"], 2)
        evidence[f"found{name}"] = [
            round(bound, 3) for bound in (share.value, share.low, share.high)
        ]
    cost = cost_figures(rows)
    return {
        "answers": len(rows),
        "sentences": round(float(np.mean([row["sentences"] for row in rows])), 1),
        **{name: round(cost[name], 3) for name in ("candidates", "drawn_over_emitted", "fallback")},
        **evidence,
        "rep-4": round(mean_repetition([row["text"] for row in rows]), 4),
        "ended": round(float(np.mean([row["stopped"] == "end" for row in rows])), 2),
    }


if __name__ == "__main__":
    main()
