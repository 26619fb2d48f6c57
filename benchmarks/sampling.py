"""How a language model should draw when it answers a chat and its answers are marked.

Every setting writes marked answers to the same questions under the same keys. One line says what
they cost, what they prove, and how they read: repetition, and perplexity by a second model::

    python benchmarks/sampling.py --out FOLDER
    python benchmarks/sampling.py --out FOLDER --backend transformers:smollm2 --texts 96
    python benchmarks/sampling.py --out FOLDER --judge FILE.gguf      # perplexity of what is there

Questions are about the subjects of encyclopedia articles, or the field ``--field`` of the lines of
``--questions``. Answers are kept in FOLDER and not written again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.environment import model_store
from hammingmark.assembly.keys import new_key
from hammingmark.assembly.marking import writer
from hammingmark.assembly.parts import load_splitter
from hammingmark.evaluation.metrics import bootstrap, mean_repetition
from hammingmark.evaluation.rows import Row, append, read_rows
from hammingmark.generation.generate import GenerationConfig
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.models.catalogue import DEFAULT_GENERATOR
from hammingmark.prompts import as_prompt
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
    parser.add_argument("--backend", default=DEFAULT_GENERATOR)
    parser.add_argument("--texts", type=int, default=24, help="answers per setting")
    parser.add_argument("--tokens", type=int, default=200, help="tokens per answer at most")
    parser.add_argument("--questions", type=Path, help="a JSONL file")
    parser.add_argument("--field", default="input")
    parser.add_argument("--judge", help="model for the perplexity, as transformers loads it")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    questions = read_questions(options)[: options.texts]
    for marked in (True, False):
        for name, sampling in SETTINGS.items():
            path = options.out / f"{name.replace(' ', '')}{'' if marked else '-unmarked'}.jsonl"
            rows = read_rows(path)
            if not rows:
                rows = answer(questions, sampling, options, marked=marked)
                append(path, rows)
            print(f"{name:18} {'marked' if marked else 'plain':7}", report(rows), flush=True)
            if options.judge:
                print(f"{'':26} perplexity {perplexity(rows, options.judge)}", flush=True)


def read_questions(options: argparse.Namespace) -> list[str]:
    if options.questions:
        lines = options.questions.read_text("utf-8").splitlines()
        return [str(json.loads(line)[options.field]) for line in lines]
    (file,) = model_store().ensure("wiki100").glob("*.jsonl")
    subjects = [json.loads(line)["id"] for line in file.read_text("utf-8").splitlines()]
    return [f"What should everybody know about {subject}, and why?" for subject in subjects]


def keys_of(encoder: Any) -> list[WatermarkKey]:
    key = new_key(encoder, method="hamming")
    return [replace(key, secret=Secret(bytes([number + 1] * 32))) for number in range(KEYS)]


def answer(
    questions: list[str], sampling: Sampling, options: argparse.Namespace, *, marked: bool
) -> list[Row]:
    """Write, a quarter of the questions under each key, and judge."""
    encoder = shared("encoder", lambda: load_encoder("minilm-robust"))
    splitter = load_splitter()
    backend = shared("backend", lambda: load_backend(options.backend))
    rows: list[Row] = []
    for number, key in enumerate(keys_of(encoder)):
        asked = questions[number::KEYS]
        made = writer(
            key if marked else None,
            backend=backend,
            encoder=encoder,
            splitter=splitter,
            config=GenerationConfig(max_tokens=options.tokens).with_sampling(sampling),
        )
        prompts = [as_prompt([{"role": "user", "content": each}]) for each in asked]
        generations = made.write_many(prompts, seed=number)
        texts = [generation.text for generation in generations]
        free, given = (
            list(detector(key, encoder=encoder, topic=topic).judge_many(texts))
            for topic in ("free", "given")
        )
        rows += [
            {
                "question": question,
                "text": generation.text,
                "sentences": len(generation.sentences),
                "stopped": generation.stopped,
                "p_free": one.p_value or 1.0,
                "p_given": other.p_value or 1.0,
                **asdict(generation.cost),
            }
            for question, generation, one, other in zip(
                asked, generations, free, given, strict=True
            )
        ]
    return rows


def report(rows: list[Row]) -> str:
    sentences = sum(row["sentences"] for row in rows)
    drawn = sum(row["drawn_tokens"] for row in rows) / sum(row["tokens"] for row in rows)
    bits = [-np.log2(row["p_free"]) for row in rows]
    low, high = bootstrap(np.mean, np.array(bits), rng=np.random.default_rng(0), rounds=400)
    figures = {
        "answers": len(rows),
        "sentences": round(sentences / len(rows), 1),
        "candidates": round(sum(row["candidates"] for row in rows) / sentences, 2),
        "drawn_over_emitted": round(drawn, 2),
        "fallbacks": round(sum(row["fallbacks"] for row in rows) / sentences, 3),
        "bits": round(float(np.mean(bits)), 2),
        "interval": [round(float(low), 2), round(float(high), 2)],
        "found_free": round(float(np.mean([row["p_free"] <= 0.01 for row in rows])), 3),
        "found_given": round(float(np.mean([row["p_given"] <= 0.01 for row in rows])), 3),
        "rep-4": round(mean_repetition([row["text"] for row in rows]), 4),
        "ended": round(float(np.mean([row["stopped"] == "end" for row in rows])), 2),
    }
    return json.dumps(figures)


def perplexity(rows: list[Row], judge: str) -> float:
    """Per token of the second model, the question given and not counted."""
    import torch

    from hammingmark.pretrained import load

    loaded = shared(
        "judge",
        lambda: load("AutoModelForCausalLM", judge, dtype="bfloat16"),
    )
    loss = count = 0.0
    for row in rows:
        before = loaded.tokenizer(row["question"] + "\n\n").input_ids
        tokens = loaded.tokenizer(row["text"]).input_ids
        ids = torch.tensor([before + tokens], device=loaded.device)
        with torch.inference_mode():
            logits = loaded.model(ids).logits[0, len(before) - 1 : -1].float()
        loss += float(
            torch.nn.functional.cross_entropy(logits, ids[0, len(before) :], reduction="sum")
        )
        count += len(tokens)
    return round(float(np.exp(loss / count)), 2)


_SHARED: dict[str, Any] = {}


def shared(name: str, make: Any) -> Any:
    """What is loaded once."""
    if name not in _SHARED:
        _SHARED[name] = make()
    return _SHARED[name]


if __name__ == "__main__":
    main()
