"""Bold translations of held-out sentences that still say the same, to measure with.

    python -m research.training.draws --models FOLDER --base FOLDER --genres c4 cnn --most 500

Drawn from all tokens both ways, most translations lose the meaning. Each sentence is drawn several
times, and the first that the base encoder finds near is kept; sentences without one are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from research.training.files import DATA, read_passages, write_rewrites
from research.training.measure import load_encoder
from research.training.rewrites import marian


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, help="the translation models")
    parser.add_argument("--base", type=Path, required=True, help="the base encoder")
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--genres", nargs="+", default=["c4", "cnn", "booksum"])
    parser.add_argument("--most", type=int, default=500, help="sentences at most, of each genre")
    parser.add_argument("--times", type=int, default=8, help="translations of each sentence")
    parser.add_argument("--least", type=float, default=0.7, help="cosine of the base encoder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=DATA / "rewrites" / "marian-sampled.jsonl.gz")
    given = parser.parse_args()
    counts = dict.fromkeys(given.genres, 0)
    wanted: dict[str, None] = {}
    for passage in read_passages(given.passages, split="heldout"):
        genre, sentences = passage["genre"], passage["sentences"]
        if counts.get(genre, given.most) < given.most:
            counts[genre] += len(sentences)
            wanted.update(dict.fromkeys(sentences))
    translate = marian(temperature=1.0, folder=given.models, device=given.device)
    encoder = load_encoder(given.base, None, given.device)
    rng = np.random.default_rng(given.seed)
    drawn = [each for each in wanted for _ in range(given.times)]
    made = translate(drawn, rng)
    near = (encoder.encode(drawn) * encoder.encode(made)).sum(axis=1) >= given.least
    found: dict[str, str] = {}
    for sentence, rewrite, yes in zip(drawn, made, near, strict=True):
        if yes and rewrite.strip():
            found.setdefault(sentence, rewrite)
    write_rewrites(given.out, found)
    print(f"{given.out}: {near.mean():.3f} near, of {len(found)} of {len(wanted)} sentences one")


if __name__ == "__main__":
    main()
