"""Whether the mark changes answers: questions with known answers, marked against unmarked.

    python benchmarks/fidelity.py --out FOLDER                 # Qwen2.5-Coder-1.5B on the CPU
    python benchmarks/fidelity.py --out FOLDER --backend transformers:qwen-coder --together 256

Questions are yes or no, choices, arithmetic, short facts, and years to find in passages. A quarter
asks for one word, a quarter for one sentence, a quarter for an explanation before the answer. Each
is answered ``--draws`` times unmarked and once under each of ``--keys`` keys. Answers are stored in
the folder and not written again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.evaluation import stages
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.evaluation.datasets.questions import FORMS, Question, known_questions
from hammingmark.evaluation.fidelity import fidelity_figures
from hammingmark.evaluation.keys import UNMARKED, ExperimentKeys
from hammingmark.evaluation.progress import shown
from hammingmark.evaluation.prompts import EvaluationPrompt
from hammingmark.evaluation.rows import Row
from hammingmark.evaluation.scores import cost_figures
from hammingmark.generation.config import GenerationConfig
from hammingmark.models.catalogue import DEFAULT_ENCODER

FORM_NAMES = dict(zip(FORMS, ("one word", "one sentence", "explained", "free"), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the answers")
    parser.add_argument("--backend", default="qwen-coder")
    parser.add_argument("--encoder", default=DEFAULT_ENCODER)
    parser.add_argument("--points", nargs="+", default=["bilinear"], help="methods and presets")
    parser.add_argument("--questions", type=int, default=120)
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--draws", type=int, default=20, help="unmarked answers per question")
    parser.add_argument("--tokens", type=int, default=120, help="tokens of an answer")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--corpus", default="wiki100", help="of the passages")
    parser.add_argument("--location", type=Path, help="its file or folder, if it is not stored")
    parser.add_argument("--together", type=int, default=16, help="answers written side by side")
    parser.add_argument("--parallel", type=int, help="candidates drawn at once")
    parser.add_argument(
        "--unprotected",
        action="store_true",
        help="choose first sentences too, and keep nothing that the model insists on",
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    documents = load_corpus(options.corpus, location=options.location)
    questions = known_questions(options.questions, documents, rng=np.random.default_rng(0))
    backend = load_backend(options.backend, parallel=options.parallel)
    keys = ExperimentKeys(load_encoder(options.encoder), name="fidelity")
    config = GenerationConfig(max_tokens=options.tokens)
    sampling = replace(config.chat_sampling, temperature=options.temperature)
    config = replace(config, chat_sampling=sampling)
    if options.unprotected:
        config = replace(config, answer_start="judged", keeps_insisted=False)

    def write(point: str, numbers: int) -> list[Row]:
        prompts = [
            EvaluationPrompt(question.id, question.text, chat=True) for question in questions
        ]
        name = point.replace("/", "-") + ("-unprotected" if options.unprotected else "")
        return [
            row
            for number in range(numbers)
            for row in stages.write(
                prompts, point=point, number=number, keys=keys, backend=backend, config=config,
                path=options.out / f"{UNMARKED if point == UNMARKED else name}-{number}.jsonl",
                batch=options.together, progress=shown,
            )
        ]  # fmt: skip

    unmarked = write(UNMARKED, options.draws)
    for point in options.points:
        marked = write(point, options.keys)
        for name, part in parts(questions).items():
            chosen = {question.id for question in part}
            figures = fidelity_figures(
                part,
                [row for row in unmarked if row["id"] in chosen],
                [row for row in marked if row["id"] in chosen],
                rng=np.random.default_rng(1),
            )
            rows = [row for row in marked if row["id"] in chosen]
            show(point, name, figures, cost_figures(rows))


def parts(questions: list[Question]) -> dict[str, list[Question]]:
    """All questions, then those of each kind, then those of each form."""
    groups = {"all": questions}
    for question in questions:
        form = next(form for form in FORMS if question.text.endswith(form))
        groups.setdefault(question.kind, []).append(question)
        groups.setdefault(FORM_NAMES[form], []).append(question)
    return groups


def show(point: str, part: str, figures: dict[str, Any], cost: dict[str, float]) -> None:
    """Print the figures of a part of the questions, on one line."""
    report = {"point": point, "part": part, **figures}
    report["drawn_over_emitted"] = cost["drawn_over_emitted"]
    print(json.dumps(_rounded(report)), flush=True)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 2)
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
