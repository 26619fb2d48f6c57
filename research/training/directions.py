"""Fit the common directions of an encoder: the component that sentences of human texts share.

    python -m research.training.directions --encoder minilm-robust --out FILE

They are the mean of sentences, with equal weight for each genre, and the leading principal
directions of the means of passages, fitted on the training genres only.
``research/training/spread.py`` measures their benefit on other genres.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from hammingmark.assembly.encoders import load_encoder
from hammingmark.encoders.vectors import CommonDirections
from hammingmark.protocols import Encoder
from research.training.files import DATA, first_passages

NUMBER = 32
MOST = 1100
"""Passages of one genre."""


def embed_passages(
    path: Path, encoder: Encoder, *, split: str, most: int, longest: int | None = None
) -> dict[str, list[NDArray[np.float32]]]:
    """The embeddings of passages by genre: (n, d) each.

    Args:
        path: the file of the passages.
        encoder: embeds them.
        split: their split.
        most: passages of one genre.
        longest: most sentences of a passage.
    """
    genres: dict[str, list[list[str]]] = {}
    for passage in first_passages(path, split=split, most=most):
        genres.setdefault(passage["genre"], []).append(passage["sentences"][:longest])
    sentences = [sentence for texts in genres.values() for text in texts for sentence in text]
    embeddings = iter(encoder.encode(sentences))
    return {
        genre: [np.stack([next(embeddings) for _ in text]) for text in texts]
        for genre, texts in genres.items()
    }


def fit(genres: dict[str, list[NDArray[np.float32]]], *, number: int) -> CommonDirections:
    """The mean and the directions."""
    mean = np.mean([np.concatenate(rows).mean(axis=0) for rows in genres.values()], axis=0)
    means = np.stack([row.mean(axis=0) for rows in genres.values() for row in rows]) - mean
    _, _, directions = np.linalg.svd(means.astype(np.float64), full_matrices=False)
    return CommonDirections(
        mean.astype(np.float32), np.ascontiguousarray(directions[:number], np.float32)
    )


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", required=True, help="as for hammingmark, without directions")
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--number", type=int, default=NUMBER)
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    genres = embed_passages(
        options.passages, load_encoder(options.encoder), split="train", most=options.most
    )
    common = fit(genres, number=options.number)
    save_file({"mean": common.mean, "directions": common.directions}, options.out)
    content = options.out.read_bytes()
    passages = {genre: len(rows) for genre, rows in genres.items()}
    print(passages, hashlib.sha256(content).hexdigest(), len(content))


if __name__ == "__main__":
    main()
