"""What it costs to leave answers as they are: marked texts with and without that protection.

    python -m research.studies.protection --out FOLDER --corpus eli5 --location FOLDER
    python -m research.studies.protection --out FOLDER --corpus c4 cnn_dailymail --location FOLDER

Questions are answered as chats, openings of other corpora are continued. ``protected`` is the
default: the first sentence of an answer is free, and what the model insists on is kept. Printed are
the cost, the share of sentences that the model insists on, and the share found at 1 % by the exact
p-value. Texts are stored in the folder and not written again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.parts import load_splitter
from hammingmark.encoders.wrappers import CachedEncoder
from hammingmark.evaluation import stages
from hammingmark.evaluation.datasets.corpora import find_corpus, load_corpus
from hammingmark.evaluation.keys import ExperimentKeys
from hammingmark.evaluation.progress import shown
from hammingmark.evaluation.prompts import assign_keys, openings, questions
from hammingmark.evaluation.scores import cost_figures, exact_scores
from hammingmark.generation.config import GenerationConfig
from hammingmark.models.catalogue import DEFAULT_ENCODER

VARIANTS = {
    "protected": GenerationConfig(),
    "first sentences judged": GenerationConfig(answer_start="judged"),
    "nothing insisted on": GenerationConfig(keeps_insisted=False),
    "unprotected": GenerationConfig(answer_start="judged", keeps_insisted=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the texts")
    parser.add_argument("--corpus", nargs="+", default=["eli5"])
    parser.add_argument("--location", type=Path, help="folder of the corpora")
    parser.add_argument("--backend", default="smollm2")
    parser.add_argument("--encoder", default=DEFAULT_ENCODER)
    parser.add_argument("--points", nargs="+", default=["bilinear"], help="methods and presets")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--keys", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--together", type=int, default=8, help="texts written side by side")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    backend = load_backend(options.backend)
    keys = ExperimentKeys(CachedEncoder(load_encoder(options.encoder)), name="protection")
    for corpus in options.corpus:
        documents = load_corpus(corpus, location=options.location)
        if find_corpus(corpus).question:
            prompts = questions(documents)
        else:
            prompts = openings(documents, load_splitter(), characters=41)
        shares = assign_keys(prompts[: options.texts], options.keys)
        for point in options.points:
            for variant in options.variants:
                config = replace(VARIANTS[variant], max_tokens=options.tokens)
                name = f"{corpus}-{point.replace('/', '-')}-{variant.replace(' ', '-')}"
                rows = [
                    row
                    for number, share in shares.items()
                    for row in stages.write(
                        share, point=point, number=number, keys=keys, backend=backend,
                        config=config, path=options.out / f"{name}-{number}.jsonl",
                        batch=options.together, progress=shown,
                    )
                ]  # fmt: skip
                detected = stages.detect(
                    rows, detector_of=stages.detectors(keys), parameters={}, progress=shown
                )
                cost, found = cost_figures(rows), exact_scores(detected, levels=(0.01,))
                report = {
                    "corpus": corpus,
                    "point": point,
                    "variant": variant,
                    "texts": len(rows),
                    "drawn_over_emitted": round(cost["drawn_over_emitted"], 2),
                    "insisted": round(cost["insisted"], 3),
                    "fallback": round(cost["fallback"], 3),
                    "tokens_per_sentence": round(cost["tokens_per_sentence"], 1),
                    "sentences": round(sum(row["sentences"] for row in rows) / len(rows), 1),
                    "bits": round(found["bits"], 1),
                    "found at 1 %": str(found["found at 0.01"]),
                }
                print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
