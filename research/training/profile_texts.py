"""The training passages as texts, for ``hammingmark profile``.

    python -m research.training.profile_texts --out FILE

The same number from each training genre, so that none outweighs the others.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from research.training.files import DATA, first_passages

GENRES = ("enwik8", "gutenberg", "wiki100")
MOST = 800
"""Passages of one genre."""


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    passages = first_passages(options.passages, split="train", most=options.most, genres=GENRES)
    with options.out.open("w", encoding="utf-8") as file:
        for passage in passages:
            file.write(json.dumps({"text": " ".join(passage["sentences"])}) + "\n")
    print(dict(Counter(passage["genre"] for passage in passages)))


if __name__ == "__main__":
    main()
