"""Merge two files of rewrites: the bolder one where it keeps the meaning.

    python -m research.training.select BOLD CAREFUL --base FOLDER --least 0.7 --out FILE

Sampling from all tokens loses the meaning of most sentences; where it does not, its rewrite is
worth more than another careful translation. The base encoder measures similarity.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from research.training.files import read_rewrites, write_rewrites
from research.training.measure import load_encoder


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bold", type=Path)
    parser.add_argument("careful", type=Path)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--least", type=float, default=0.7, help="cosine of the base encoder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    bold, careful = read_rewrites(options.bold), read_rewrites(options.careful)
    sentences = [sentence for sentence in careful if bold.get(sentence, "").strip()]
    encoder = load_encoder(options.base, None, options.device)
    before = encoder.encode(sentences)
    after = encoder.encode([bold[sentence] for sentence in sentences])
    near = (before * after).sum(axis=1) >= options.least
    chosen = careful | {
        sentence: bold[sentence]
        for sentence, is_near in zip(sentences, near, strict=True)
        if is_near
    }
    write_rewrites(options.out, chosen)
    print(f"{options.out}: {near.mean():.3f} of {len(sentences)} bold")


if __name__ == "__main__":
    main()
