"""Measure an encoder under the bilinear rule on held-out genres.

    python -m research.training.measure RUN ... --base FOLDER --rewrites FILES --pools FILE

The mean of human text and the leading directions of text means are fitted on training genres and
removed first. No key is needed: all figures are cosines, or follow from them (`forecast`).

- ``kept``: the mean over neighbouring sentences of the product of the two cosines of a sentence
  with its rewrite; ``far``: the share of products below 0.7;
- ``neighbours``, ``pairs``: mean cosine of neighbouring sentences, of any two of a passage;
- ``tau2``: mean cosine of a model's candidates for one sentence;
- ``cost``: candidates per sentence if 0.3 of natural ones are accepted;
- ``evidence``: bits per transition after rewriting, at a cost of 2.6 candidates per sentence.
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hammingmark.encoders.vectors import CommonDirections
from research.training.directions import fit
from research.training.encoder import SentenceEncoder
from research.training.files import DATA, first_passages, read_passages, read_rewrites
from research.training.forecast import candidates, evidence, threshold_of

Floats = NDArray[np.float32]
ACCEPTANCE, COST, FAR = 0.3, 2.6, 0.7


def load_encoder(base: Path, run: Path | None, device: str) -> SentenceEncoder:
    """The base, with the additions of a run if there is one."""
    rank = json.loads((run / "recipe.json").read_text())["rank"] if run else 0
    encoder = SentenceEncoder(base, rank=rank, device=device)
    if run:
        encoder.load(run / "additions.safetensors")
    encoder.eval()
    return encoder


def passages_of(path: Path, *, split: str, most: int) -> dict[str, list[list[str]]]:
    """The first passages of each genre."""
    genres: dict[str, list[list[str]]] = {}
    for passage in first_passages(path, split=split, most=most):
        genres.setdefault(passage["genre"], []).append(passage["sentences"])
    return genres


def fit_common(encoder: SentenceEncoder, texts: list[list[str]], *, count: int) -> CommonDirections:
    """The common directions of the sentences of these texts."""
    rows = iter(encoder.encode([sentence for text in texts for sentence in text]))
    return fit({"all": [np.stack([next(rows) for _ in text]) for text in texts]}, number=count)


def pair_means(texts: list[Floats]) -> tuple[float, float]:
    """Mean cosine of neighbours, and of any two sentences of a text."""
    near, every = [], []
    for text in texts:
        cosines = text @ text.T
        near.append(np.diagonal(cosines, 1))
        every.append(cosines[np.triu_indices(len(text), 1)])
    return float(np.concatenate(near).mean()), float(np.concatenate(every).mean())


def products(texts: list[list[str]], kept: dict[str, float]) -> NDArray[np.float64]:
    """The products of the cosines of two neighbours with their rewrites, where both have one."""
    pairs = [pair for text in texts for pair in pairwise(text)]
    return np.array(
        [kept[first] * kept[second] for first, second in pairs if first in kept and second in kept]
    )


def measure(
    encoder: SentenceEncoder,
    common: CommonDirections,
    passages: dict[str, list[list[str]]],
    rewrites: dict[str, dict[str, str]],
    pools: list[list[str]],
) -> dict[str, object]:
    """All figures of one encoder."""

    def embed(sentences: list[str]) -> Floats:
        return common.remove(encoder.encode(sentences))

    report: dict[str, object] = {}
    products_by_rewriter: dict[str, list[NDArray[np.float64]]] = {}
    for genre, texts in passages.items():
        sentences = [sentence for text in texts for sentence in text]
        embeddings = embed(sentences)
        parts = np.split(embeddings, np.cumsum([len(text) for text in texts])[:-1])
        neighbours, pairs = pair_means(parts)
        row: dict[str, object] = {"neighbours": round(neighbours, 4), "pairs": round(pairs, 4)}
        for name, table in rewrites.items():
            rewritten = [
                i for i, sentence in enumerate(sentences) if table.get(sentence, "").strip()
            ]
            if not rewritten:
                continue
            rewrite_embeddings = embed([table[sentences[i]] for i in rewritten])
            cosines = (embeddings[rewritten] * rewrite_embeddings).sum(axis=1)
            kept = {sentences[i]: float(c) for i, c in zip(rewritten, cosines, strict=True)}
            kappas = products(texts, kept)
            products_by_rewriter.setdefault(name, []).append(kappas)
            row[name] = {
                "kept": round(float(kappas.mean()), 4),
                "far": round(float((kappas < FAR).mean()), 4),
            }
        report[genre] = row
    if not pools:
        return report
    embeddings = embed([sentence for pool in pools for sentence in pool])
    parts = np.split(embeddings, np.cumsum([len(pool) for pool in pools])[:-1])
    tau2 = pair_means([part[1:] for part in parts])[1]
    report["tau2"] = round(tau2, 4)
    report["before"] = round(float(np.mean([(part[1:] @ part[0]).mean() for part in parts])), 4)
    report["cost"] = round(candidates(threshold_of(ACCEPTANCE), tau2), 3)
    evidence_left = {
        name: evidence(np.concatenate(kappas), tau2=tau2, cost=COST)
        for name, kappas in products_by_rewriter.items()
    }
    report["evidence"] = {name: round(value, 4) for name, value in evidence_left.items()} | {
        "as written": round(evidence(np.ones(1), tau2=tau2, cost=COST), 4)
    }
    return report


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path, help="runs to measure; by default the base")
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--genres", nargs="*", default=["c4", "cnn", "booksum"])
    parser.add_argument("--rewrites", type=Path, nargs="*", default=[])
    parser.add_argument(
        "--pools", type=Path, help="of held-out openings, by research.training.pools"
    )
    parser.add_argument("--most", type=int, default=120, help="held-out passages of each genre")
    parser.add_argument("--fit", type=int, default=800, help="training passages of each genre")
    parser.add_argument("--directions", type=int, default=32)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    heldout = passages_of(options.passages, split="heldout", most=options.most)
    passages = {genre: heldout[genre] for genre in options.genres if genre in heldout}
    fitting = passages_of(options.passages, split="train", most=options.fit)
    human = [text for texts in fitting.values() for text in texts]
    rewrites = {path.name.partition(".")[0]: read_rewrites(path) for path in options.rewrites}
    pools = []
    if options.pools:
        rows = (row["sentences"] for row in read_passages(options.pools))
        pools = [row for row in rows if len(row) > 4]
    report = {}
    for run in options.runs or [None]:
        encoder = load_encoder(options.base, run, options.device)
        common = fit_common(encoder, human, count=options.directions)
        name = run.name if run else "base"
        report[name] = measure(encoder, common, passages, rewrites, pools)
        print(name, json.dumps(report[name]), flush=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
