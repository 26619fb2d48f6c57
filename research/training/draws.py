"""Bold translations of held-out sentences that keep the meaning, for measurements.

    python -m research.training.draws --models FOLDER --base FOLDER --genres c4 cnn --most 500

Sampled from all tokens in both directions, most translations lose the meaning. Several are sampled
for each sentence, and the first that the base encoder finds similar is kept; sentences without one
are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from research.training.files import DATA, read_passages, write_rewrites
from research.training.measure import load_encoder
from research.training.rewrites import marian


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, help="the translation models")
    parser.add_argument("--base", type=Path, required=True, help="the base encoder")
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--genres", nargs="+", default=["c4", "cnn", "booksum"])
    parser.add_argument("--most", type=int, default=500, help="most sentences of each genre")
    parser.add_argument("--times", type=int, default=8, help="translations of each sentence")
    parser.add_argument("--least", type=float, default=0.7, help="cosine of the base encoder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=DATA / "rewrites" / "marian-sampled.jsonl.gz")
    options = parser.parse_args()
    counts = dict.fromkeys(options.genres, 0)
    selected: dict[str, None] = {}
    for passage in read_passages(options.passages, split="heldout"):
        genre, sentences = passage["genre"], passage["sentences"]
        if counts.get(genre, options.most) < options.most:
            counts[genre] += len(sentences)
            selected.update(dict.fromkeys(sentences))
    translate = marian(temperature=1.0, folder=options.models, device=options.device)
    encoder = load_encoder(options.base, None, options.device)
    rng = np.random.default_rng(options.seed)
    repeated = [sentence for sentence in selected for _ in range(options.times)]
    translations = translate(repeated, rng)
    near = (encoder.encode(repeated) * encoder.encode(translations)).sum(axis=1) >= options.least
    rewrites: dict[str, str] = {}
    for sentence, rewrite, is_near in zip(repeated, translations, near, strict=True):
        if is_near and rewrite.strip():
            rewrites.setdefault(sentence, rewrite)
    write_rewrites(options.out, rewrites)
    print(
        f"{options.out}: {near.mean():.3f} near, for {len(rewrites)} of {len(selected)} sentences"
    )


if __name__ == "__main__":
    main()
