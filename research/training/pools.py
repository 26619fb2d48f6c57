"""Pools of candidates: a sentence, and a model's unconstrained next sentences.

    python -m research.training.pools --genres c4 cnn --candidates 16 --out FILE

The candidates accepted under a key by any rule follow from their embeddings, so one file of pools
serves every encoder and every rule, at a thousandth of the cost of generating texts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.parts import load_splitter
from hammingmark.evaluation.natural import draw_pools
from research.training.files import DATA, read_passages

OPENING = 3
"""Sentences of a passage that a model continues."""


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="smollm2")
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--split", choices=("train", "heldout"), default="heldout")
    parser.add_argument("--genres", nargs="*", help="by default all of the split")
    parser.add_argument(
        "--opening",
        type=int,
        nargs=2,
        default=[OPENING, OPENING],
        metavar=("LEAST", "MOST"),
        help="sentences of a passage that the model continues",
    )
    parser.add_argument("--contexts", type=int, default=400)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=DATA / "pools.jsonl")
    options = parser.parse_args()
    backend = load_backend(options.backend, context=1024)
    rows = [
        row
        for row in read_passages(options.passages, split=options.split)
        if not options.genres or row["genre"] in options.genres
    ][: options.contexts]
    shortest, longest = options.opening
    sizes = np.random.default_rng(options.seed).integers(shortest, longest + 1, size=len(rows))
    # A passage has at least 8 sentences, so that one always follows its opening.
    openings = [" ".join(row["sentences"][:n]) for row, n in zip(rows, sizes, strict=True)]
    pools = draw_pools(
        openings,
        backend=backend,
        splitter=load_splitter(),
        count=options.candidates,
        seed=options.seed,
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", encoding="utf-8") as file:
        for row, size, pool in zip(rows, sizes, pools, strict=True):
            record = {
                "id": row["id"],
                "genre": row["genre"],
                "split": row["split"],
                "next": row["sentences"][size],
                "sentences": pool,
            }
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
