"""The training passages as texts, for ``hammingmark profile``.

    python -m research.training.profile_texts --out FILE

As many of each training genre, so that none outweighs the others.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from research.training.rewrites import DATA, read_passages

GENRES = ("enwik8", "gutenberg", "wiki100")
MOST = 800
"""Passages of one genre."""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    taken: Counter[str] = Counter()
    with given.out.open("w", encoding="utf-8") as file:
        for passage in read_passages(given.passages, split="train"):
            genre = passage["genre"]
            if genre in GENRES and taken[genre] < given.most:
                taken[genre] += 1
                file.write(json.dumps({"text": " ".join(passage["sentences"])}) + "\n")
    print(dict(taken))


if __name__ == "__main__":
    main()
