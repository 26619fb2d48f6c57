"""What an encoder does to bits: how many a rewrite flips, how many neighbours share.

    python -m training.measure --base FOLDER training/runs/NAME ... --rewrites FILES

All figures are shares of bits over keys, from angles; no key is drawn.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hammingmark.core import theory
from hammingmark.core.statistics import pair_cosines
from training.encoder import SentenceEncoder
from training.rewrites import DATA, read_passages, read_rewrites

Floats = NDArray[np.float64]


def flips(one: NDArray[np.float32], other: NDArray[np.float32]) -> Floats:
    """θ/π of rows."""
    return 1.0 - theory.match_probability(pair_cosines(one, other))


def measure(
    encoder: SentenceEncoder,
    passages: dict[str, list[list[str]]],
    rewrites: dict[str, dict[str, str]],
) -> dict[str, object]:
    """Flips by rewriter and genre; agreement of neighbours by genre, its spread, and of others."""
    report: dict[str, object] = {}
    for genre, texts in passages.items():
        sentences = [sentence for text in texts for sentence in text]
        made = encoder.encode(sentences)
        ends = np.cumsum([len(text) for text in texts])[:-1]
        agree = 1.0 - flips(made[:-1], made[1:])
        inside = np.ones(len(agree), bool)
        inside[ends - 1] = False
        natural = agree[inside]
        strangers = 1.0 - flips(made, np.roll(made, len(made) // 2, axis=0))
        row: dict[str, object] = {
            "neighbours": round(float(natural.mean()), 4),
            "spread": round(float(natural.std()), 4),
            "strangers": round(float(strangers.mean()), 4),
        }
        for name, table in rewrites.items():
            known = [(i, table[s]) for i, s in enumerate(sentences) if s in table]
            if not known:
                continue
            others = encoder.encode([text for _, text in known])
            row[name] = round(float(flips(made[[i for i, _ in known]], others).mean()), 4)
        report[genre] = row
    return report


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--rewrites", type=Path, nargs="*", default=[])
    parser.add_argument("--most", type=int, default=120, help="passages of each genre")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    passages: dict[str, list[list[str]]] = {}
    for passage in read_passages(given.passages, split="heldout"):
        known = passages.setdefault(passage["genre"], [])
        if len(known) < given.most:
            known.append(passage["sentences"])
    rewrites = {path.name.partition(".")[0]: read_rewrites(path) for path in given.rewrites}
    report = {"base": measure(load_encoder(given.base, None, given.device), passages, rewrites)}
    for run in given.runs:
        report[run.name] = measure(load_encoder(given.base, run, given.device), passages, rewrites)
    for name, rows in report.items():
        print(name, json.dumps(rows))
    if given.out:
        given.out.write_text(json.dumps(report, indent=1) + "\n")


def load_encoder(base: Path, run: Path | None, device: str) -> SentenceEncoder:
    """The base, with the additions of a run if one is named."""
    rank = json.loads((run / "recipe.json").read_text())["rank"] if run else 0
    encoder = SentenceEncoder(base, rank=rank, device=device)
    if run:
        encoder.load(run / "additions.safetensors")
    encoder.eval()
    return encoder


if __name__ == "__main__":
    main()
