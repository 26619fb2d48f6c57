"""Pools of candidates: a sentence, and what a model would write next, with nothing demanded.

    python -m research.training.pools --genres c4 cnn --candidates 16 --out FILE

For any encoder and any rule, what would be accepted under a key follows from the embeddings alone,
so one file of pools serves every encoder and every rule, at a thousandth of the cost of writing.
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
"""Sentences of a passage that a model goes on from."""


def main() -> None:
    """The command."""
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
        help="sentences of a passage that the model goes on from",
    )
    parser.add_argument("--contexts", type=int, default=400)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=DATA / "pools.jsonl")
    given = parser.parse_args()
    backend = load_backend(given.backend, context=1024)
    rows = [
        row
        for row in read_passages(given.passages, split=given.split)
        if not given.genres or row["genre"] in given.genres
    ][: given.contexts]
    shortest, longest = given.opening
    sizes = np.random.default_rng(given.seed).integers(shortest, longest + 1, size=len(rows))
    # A passage has at least 8 sentences, so that one always follows its opening.
    openings = [" ".join(row["sentences"][:n]) for row, n in zip(rows, sizes, strict=True)]
    pools = draw_pools(
        openings,
        backend=backend,
        splitter=load_splitter(),
        count=given.candidates,
        seed=given.seed,
    )
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("w", encoding="utf-8") as file:
        for row, size, pool in zip(rows, sizes, pools, strict=True):
            found = {
                "id": row["id"],
                "genre": row["genre"],
                "split": row["split"],
                "next": row["sentences"][size],
                "sentences": pool,
            }
            file.write(json.dumps(found, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
