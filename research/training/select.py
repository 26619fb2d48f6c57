"""Of two files of rewrites, take the bolder where it still says the same.

    python -m research.training.select BOLD CAREFUL --base FOLDER --least 0.7 --out FILE

Sampling from all tokens loses the meaning of most sentences; where it does not, its rewrite is
worth more than another careful translation. The base encoder says where.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from research.training.files import read_rewrites, write_rewrites
from research.training.measure import load_encoder


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bold", type=Path)
    parser.add_argument("careful", type=Path)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--least", type=float, default=0.7, help="cosine of the base encoder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    bold, careful = read_rewrites(given.bold), read_rewrites(given.careful)
    sentences = [each for each in careful if bold.get(each, "").strip()]
    encoder = load_encoder(given.base, None, given.device)
    before = encoder.encode(sentences)
    after = encoder.encode([bold[each] for each in sentences])
    near = (before * after).sum(axis=1) >= given.least
    chosen = careful | {each: bold[each] for each, yes in zip(sentences, near, strict=True) if yes}
    write_rewrites(given.out, chosen)
    print(f"{given.out}: {near.mean():.3f} of {len(sentences)} bold")


if __name__ == "__main__":
    main()
