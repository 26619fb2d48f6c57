"""The cost and the power of a search among many derived keys.

The default model writes texts, each marked with the key that a master derives for its own label,
and as many unmarked ones. Each is then searched among 1, 100 and 10,000 labels::

    python benchmarks/keys.py                     # about twenty minutes on two cores
    python benchmarks/keys.py --texts 8 --labels 1 100
    python benchmarks/keys.py --json result.json

Times are ratios to the search under one key, in the same run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import new_key
from hammingmark.assembly.marking import writer
from hammingmark.assembly.parts import load_splitter
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.evaluation.prompts import openings
from hammingmark.generation.generate import GenerationConfig
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Encoder
from hammingmark.records import Verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--texts", type=int, default=32, help="marked, and as many not")
    parser.add_argument("--tokens", type=int, default=200, help="of each text (default 200)")
    parser.add_argument("--labels", type=int, nargs="+", default=[1, 100, 10_000])
    parser.add_argument("--level", type=float, default=0.01)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    options = parser.parse_args()
    encoder = load_encoder()
    master = WatermarkKey(Secret(bytes(range(32))), new_key(encoder).config)
    marked, plain = write(master, encoder, options)
    print(f"{len(marked)} marked texts, {len(plain)} unmarked, level {options.level:g}")
    print(f"{'labels':>7} {'found':>7} {'label':>7} {'false':>7} {'marked':>9} {'unmarked':>9}")
    rows = []
    for count in options.labels:
        row = search(master, encoder, marked, plain, count=count, level=options.level)
        rows.append(row)
        base = rows[0]["unmarked_seconds"]
        print(
            f"{count:>7,} {row['found']:>7.1%} {row['named']:>7.1%} {row['false']:>7.1%} "
            f"{row['marked_seconds'] / base:>8.1f}x {row['unmarked_seconds'] / base:>8.1f}x"
            f"   {row['marked_seconds']:.2f} s and {row['unmarked_seconds']:.2f} s per text",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def label_of(number: int) -> str:
    return f"document {number}"


def write(
    master: WatermarkKey, encoder: Encoder, options: argparse.Namespace
) -> tuple[list[str], list[str]]:
    """Continue the openings of encyclopedia articles, each under the key of its own label."""
    articles = openings(load_corpus("wiki100"), load_splitter())[: options.texts]
    prompts = [opening.prompt for opening in articles]
    config = GenerationConfig(max_tokens=options.tokens)
    with load_backend() as backend:  # type: ignore[attr-defined]
        marked = [
            writer(master.derive(label_of(i)), backend=backend, encoder=encoder, config=config)
            .write(prompt, seed=i)
            .text
            for i, prompt in enumerate(prompts)
        ]
        unmarked = writer(None, backend=backend, config=config).write_many(prompts, seed=1)
    return marked, [generation.text for generation in unmarked]


def search(
    master: WatermarkKey,
    encoder: Encoder,
    marked: Sequence[str],
    unmarked: Sequence[str],
    *,
    count: int,
    level: float,
) -> dict[str, Any]:
    """Search each text among ``count`` labels, its own included."""
    found = named = 0
    seconds = 0.0
    for number, text in enumerate(marked):
        labels = [label_of(number + step) for step in range(count)]
        verdict, duration = judge(master, labels, text, encoder, level)
        found += verdict.watermarked is True
        named += verdict.watermarked is True and verdict.label == label_of(number)
        seconds += duration
    false = 0
    labels = [label_of(step) for step in range(count)]
    idle = 0.0
    for text in unmarked:
        verdict, duration = judge(master, labels, text, encoder, level)
        false += verdict.watermarked is True
        idle += duration
    return {
        "labels": count,
        "found": found / len(marked),
        "named": named / len(marked),
        "false": false / len(unmarked),
        "marked_seconds": seconds / len(marked),
        "unmarked_seconds": idle / len(unmarked),
    }


def judge(
    master: WatermarkKey, labels: Sequence[str], text: str, encoder: Encoder, level: float
) -> tuple[Verdict, float]:
    start = time.perf_counter()
    label_detector = detector(master, labels=labels, encoder=encoder, level=level)
    verdict = label_detector.judge(text)
    return verdict, time.perf_counter() - start


if __name__ == "__main__":
    main()
