"""The share of marked texts detected by the exact p-value, and their cost.

    python -m research.studies.evidence write --points bilinear/acceptance=0.38 --out FOLDER
    python -m research.studies.evidence attack --attacks bergamot synonyms --out FOLDER
    python -m research.studies.evidence judge --out FOLDER
    python -m research.studies.evidence leak --out FOLDER

A point is a method and its parameters, a method and a preset, or ``unmarked``. Prompts are the
openings of held-out passages (``research/training/corpus.py``), distributed over public
keys; ``--numbers`` writes only the texts of some of these keys. Texts, attacked texts and p-values
are stored in the folder, one file per point and attack, and not made again; files of one name in
subfolders are read as one. Texts that the model ended before ``--least`` tokens are not judged.
``leak`` estimates each bilinear key from its texts, and correlates the estimate with the true
scores of sentences in unmarked texts that answer other prompts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.parts import load_splitter
from hammingmark.detection.reader import embed_texts
from hammingmark.encoders.wrappers import CachedEncoder
from hammingmark.evaluation import stages
from hammingmark.evaluation.keys import ExperimentKeys
from hammingmark.evaluation.progress import shown
from hammingmark.evaluation.prompts import assign_keys
from hammingmark.evaluation.quality import mean_repetition
from hammingmark.evaluation.rows import Row
from hammingmark.evaluation.scores import cost_figures
from hammingmark.generation.config import GenerationConfig
from hammingmark.protocols import Encoder, FloatArray
from hammingmark.watermarks.bilinear import BilinearConfig
from research.cryptanalysis import bilinear_factors
from research.cryptanalysis.bilinear import score_correlation
from research.studies.common import (
    PASSAGES,
    attack_files,
    file_of,
    human_texts,
    judge_rows,
    passage_prompts,
    read_folder,
    rounded,
)


def write(options: argparse.Namespace) -> None:
    """Write texts of every point under every key."""
    backend = load_backend(options.backend, context=options.context)
    keys = ExperimentKeys(load_encoder(options.encoder))
    prompts = assign_keys(
        passage_prompts(options.passages, options.genres, options.texts), options.keys
    )
    config = GenerationConfig(max_tokens=options.tokens, stage_tokens=options.stage_tokens)
    for point in options.points:
        rows = [
            row
            for number in options.numbers or prompts
            for row in stages.write(
                prompts[number],
                point=point,
                number=number,
                keys=keys,
                backend=backend,
                config=config,
                path=options.out / file_of(point),
                batch=options.together,
                progress=shown,
            )
        ]
        print(json.dumps({"point": point, **rounded(cost_figures(rows))}), flush=True)


def attack(options: argparse.Namespace) -> None:
    """Run every attack on the texts of every point."""
    settings: dict[str, dict[str, Any]] = {
        "synonyms": {"share": 0.5},
        "rewrite": {"backend": options.rewriter},
    }
    for name in options.attacks:
        parameters = settings.get(name, {})
        attack_files(options.out, name, batch=options.together, parameters=parameters)


def judge(options: argparse.Namespace) -> None:
    """Print a line of figures for each file of texts."""
    keys = ExperimentKeys(CachedEncoder(load_encoder(options.encoder)))
    human = human_texts(options.passages, options.human) if options.human else []
    for file, rows in read_folder(options.out).items():
        kept = [
            row for row in rows if row["emitted_tokens"] >= options.least and row["text"].strip()
        ]
        report: dict[str, Any] = {"file": file, "texts": len(kept)}
        if "~" not in file:
            texts = [row["text"] for row in rows]
            report |= {"cost": rounded(cost_figures(rows)), "rep-4": mean_repetition(texts)}
        if file.startswith("unmarked"):
            print(json.dumps(rounded(report)), flush=True)
            continue
        for share in options.crops:
            figures = judge_rows(
                cropped(kept, share),
                keys,
                human,
                levels=options.levels,
                rounds=options.rounds,
                folder=options.out,
            )
            crop = {} if share == 1.0 else {"left": share}
            print(json.dumps(rounded({**report, **crop, **figures})), flush=True)


def cropped(rows: list[Row], share: float) -> list[Row]:
    """Rows with a share of each text's sentences, from the middle."""
    if share == 1.0:
        return rows
    splitter = load_splitter()
    kept = []
    for row in rows:
        sentences = splitter.split(row["text"]).carrying
        count = max(1, round(share * len(sentences)))
        first = (len(sentences) - count) // 2
        kept.append({**row, "text": " ".join(sentences[first : first + count])})
    return kept


def leak(options: argparse.Namespace) -> None:
    """Measure how well each bilinear key can be estimated from some of its texts."""
    encoder = load_encoder(options.encoder)
    keys = ExperimentKeys(encoder)
    files = read_folder(options.out)
    natural = embedded(files["unmarked.jsonl"], encoder)
    for file, rows in files.items():
        if "~" in file or not file.startswith("bilinear"):
            continue
        texts = embedded(rows, encoder)
        for count in options.counts:
            report: dict[str, object] = {"file": file, "texts": count, "keys": len(texts)}
            correlations, transitions = [], []
            for number, key_texts in texts.items():
                key = keys.key(rows[0]["point"], number)
                assert key is not None
                rule = key.config
                assert isinstance(rule, BilinearConfig)
                rng = np.random.default_rng([number, count])
                guess = bilinear_factors.learn(
                    key_texts[:count], rank=rule.rank, threshold=rule.threshold, rng=rng
                )
                others = [text for other in natural if other != number for text in natural[other]]
                true = bilinear_factors.FormFactors.of(key)
                correlations.append(score_correlation(guess, true, others, rng=rng, firsts=1000))
                transitions.append(sum(len(text) - 1 for text in key_texts[:count]))
            report["transitions"] = round(float(np.mean(transitions)), 1)
            report["correlation"] = [round(value, 3) for value, _ in correlations]
            report["mean"] = round(float(np.mean([value for value, _ in correlations])), 3)
            report["mean of first"] = round(float(np.mean([value for _, value in correlations])), 3)
            print(json.dumps(report), flush=True)


def embedded(rows: list[Row], encoder: Encoder) -> dict[int, list[FloatArray]]:
    """The embeddings (n, d) of each key's texts with at least four sentences."""
    splitter = load_splitter()
    split = [(row["key"], splitter.split(row["text"]).carrying) for row in rows]
    long = [(number, sentences) for number, sentences in split if len(sentences) >= 4]
    values = embed_texts([sentences for _, sentences in long], encoder.encode)
    texts: dict[int, list[FloatArray]] = {}
    for (number, _), value in zip(long, values, strict=True):
        texts.setdefault(number, []).append(value)
    return texts


def add_writing(parser: argparse.ArgumentParser, *, texts: int) -> None:
    """The options of `write`."""
    parser.add_argument("--backend", default="smollm2")
    parser.add_argument("--genres", nargs="*", default=["c4", "cnn"])
    parser.add_argument("--texts", type=int, default=texts)
    parser.add_argument("--keys", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--numbers", type=int, nargs="*", help="of keys; by default all")
    parser.add_argument("--stage-tokens", type=int, default=GenerationConfig().stage_tokens)
    parser.add_argument("--together", type=int, default=64, help="texts written side by side (64)")


def add_attacking(parser: argparse.ArgumentParser, *attacks: str) -> None:
    """The options of `attack`."""
    parser.add_argument("--attacks", nargs="+", default=list(attacks))
    parser.add_argument("--rewriter", default="qwen-coder", help="the model that rewrites")
    parser.add_argument("--together", type=int, default=32, help="texts attacked at once (32)")


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options of every command."""
    parser.add_argument("--encoder", default="minilm-mark")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--passages", type=Path, default=PASSAGES)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    writing = commands.add_parser("write")
    writing.add_argument("--points", nargs="+", required=True)
    add_writing(writing, texts=240)
    attacking = commands.add_parser("attack")
    add_attacking(attacking, "bergamot", "synonyms")
    judging = commands.add_parser("judge")
    judging.add_argument("--least", type=int, default=150)
    judging.add_argument(
        "--human", type=int, default=0, metavar="N",
        help="calibrate on N held-out passages of each genre as well",
    )  # fmt: skip
    judging.add_argument("--rounds", type=int, default=1000)
    judging.add_argument("--levels", type=float, nargs="+", default=[0.01, 0.001])
    judging.add_argument(
        "--crops", type=float, nargs="+", default=[1.0], metavar="SHARE",
        help="of the sentences kept of each text",
    )  # fmt: skip
    leaking = commands.add_parser("leak")
    leaking.add_argument("--counts", type=int, nargs="+", default=[10, 20, 40, 60])
    every = ((writing, write), (attacking, attack), (judging, judge), (leaking, leak))
    for command, run in every:
        add_common(command)
        command.set_defaults(run=run)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
