"""The spread over keys of the rate of false positives on human text, by genre.

    python -m research.training.spread --encoder minilm-mark --keys 120

Over all keys the level holds for any text. But a user has one key and many texts of a genre, so
this prints how much the rates of keys differ, relative to sampling noise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np

from hammingmark.assembly.encoders import load_encoder
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.stats.compare import compare
from hammingmark.watermarks.bilinear import BilinearConfig, BilinearMark
from research.training.directions import embed_passages
from research.training.files import DATA

LEVELS = (0.01, 0.05)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="minilm-mark")
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--most", type=int, default=250, help="passages of one genre")
    parser.add_argument("--sentences", type=int, default=10, help="of a passage, at most")
    parser.add_argument("--keys", type=int, default=120)
    options = parser.parse_args()
    encoder = load_encoder(options.encoder)
    genres = embed_passages(
        options.passages, encoder, split="heldout", most=options.most, longest=options.sentences
    )
    config = BilinearConfig(encoder=EncoderId.of(encoder))
    p_values: dict[str, list[list[float]]] = {genre: [] for genre in genres}
    for number in range(options.keys):
        secret = Secret(hashlib.sha256(b"spread %d" % number).digest())
        mark = BilinearMark(WatermarkKey(secret, config))
        for genre, passages in genres.items():
            tests = [mark.read(passage).test("likelihood") for passage in passages]
            values = [compare(test, limit=1).p_value for test in tests]
            p_values[genre].append(values)
    for genre, rows in p_values.items():
        table = np.array(rows)
        row: dict[str, object] = {"genre": genre, "passages": table.shape[1], "keys": len(table)}
        for level in LEVELS:
            rates = (table <= level).mean(axis=1)
            noise = np.sqrt(level * (1.0 - level) / table.shape[1])
            row[f"{level:.0%}"] = {
                "rate": round(float(rates.mean()), 4),
                "spread": round(float(rates.std()), 4),
                "over_noise": round(float(rates.std() / noise), 2),
                "worst": round(float(rates.max()), 3),
            }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
