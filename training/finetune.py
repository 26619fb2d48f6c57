"""Fine-tune an encoder so that rewording does not move a sentence.

python -m training.finetune --base FOLDER --out training/runs/NAME --agree 0.6
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils import parametrize

from training.encoder import MAX_TOKENS, SentenceEncoder
from training.objective import Weights, loss
from training.rewrites import DATA, read_passages, read_rewrites

GROUPS = 2
"""Sentences of a batch are read in so many groups of like length, to save padding."""


class Corpus:
    """Training passages as tokens, read once and kept where the model computes.

    Attributes:
        passages: sentence numbers of each passage.
        rows: where each sentence's tokens lie, and those of its rewrites: (sentences, 1 + r).
    """

    def __init__(
        self, paths: list[Path], rewrites: list[Path], encoder: SentenceEncoder, most: int | None
    ) -> None:
        known = [read_rewrites(each) for each in rewrites]
        self.passages: list[np.ndarray] = []
        texts: dict[str, int] = {}
        rows: list[list[int]] = []
        for passage in (each for path in paths for each in read_passages(path, split="train")):
            begin = len(rows)
            for sentence in passage["sentences"]:
                found = [sentence, *(table.get(sentence, "") for table in known)]
                chosen = [each if each.strip() else sentence for each in found]
                rows.append([texts.setdefault(each, len(texts)) for each in chosen])
            self.passages.append(np.arange(begin, len(rows)))
            if most and len(self.passages) >= most:
                break
        self.rows = np.array(rows)
        words = encoder.tokenizer.backend_tokenizer
        words.no_padding()
        words.enable_truncation(MAX_TOKENS)
        found = [each.ids for each in words.encode_batch_fast(list(texts))]
        self.lengths = np.array([len(ids) for ids in found])
        table = np.zeros((len(found), self.lengths.max()), np.int32)
        table[np.arange(table.shape[1]) < self.lengths[:, None]] = np.concatenate(found)
        self.tokens = torch.as_tensor(table, device=encoder.device)

    def embed(self, encoder: SentenceEncoder, rows: np.ndarray) -> torch.Tensor:
        """Embeddings of some rows of tokens, in a few groups of like length."""
        order = np.argsort(self.lengths[rows], kind="stable")
        parts = []
        for group in np.array_split(order, GROUPS):
            # Few different shapes: each new one costs the GPU's library a search.
            longest = min(-(-int(self.lengths[rows[group]].max()) // 16) * 16, self.tokens.shape[1])
            chosen = torch.as_tensor(rows[group], device=encoder.device)
            tokens = self.tokens[chosen, :longest]
            sizes = torch.as_tensor(self.lengths[rows[group]], device=encoder.device)
            mask = torch.arange(longest, device=encoder.device) < sizes[:, None]
            parts.append(encoder({"input_ids": tokens, "attention_mask": mask.long()}))
        back = torch.as_tensor(np.argsort(order), device=encoder.device)
        return torch.cat(parts)[back]


def shares(names: list[str], given: list[float] | None) -> np.ndarray:
    """How often each rewriter is used."""
    weights = np.array(given or [1.0] * len(names))
    parts: np.ndarray = weights / weights.sum()
    return parts


def train(
    encoder: SentenceEncoder,
    corpus: Corpus,
    *,
    weights: Weights,
    mixture: np.ndarray,
    epochs: int,
    batch: int,
    rate: float,
    rng: np.random.Generator,
) -> list[dict[str, float]]:
    """Go over the passages; the mean of each term after each epoch."""
    device = encoder.device
    passages = corpus.passages
    parameters = [p for p in encoder.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
    steps = epochs * math.ceil(len(passages) / batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda step: min(1.0, step / (0.05 * steps)) * 0.5 * (1 + math.cos(math.pi * step / steps)),
    )
    log = []
    for epoch in range(epochs):
        began = time.perf_counter()
        sums: dict[str, float] = {}
        order = rng.permutation(len(passages))
        for begin in range(0, len(order), batch):
            chosen = [passages[index] for index in order[begin : begin + batch]]
            sentences = np.concatenate(chosen)
            numbers = np.repeat(np.arange(len(chosen)), [len(passage) for passage in chosen])
            kinds = 1 + rng.choice(len(mixture), size=len(sentences), p=mixture)
            rows = np.concatenate([corpus.rows[sentences, 0], corpus.rows[sentences, kinds]])
            with (
                torch.autocast(device.split(":")[0], dtype=torch.bfloat16),
                parametrize.cached(),
            ):
                made = corpus.embed(encoder, rows)
            terms = loss(
                made[: len(sentences)],
                made[len(sentences) :],
                torch.as_tensor(numbers, device=device),
                weights,
            )
            optimiser.zero_grad(set_to_none=True)
            terms["total"].backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            schedule.step()
            for name, value in terms.items():
                sums[name] = sums.get(name, 0.0) + float(value.detach()) * len(chosen)
        row = {name: value / len(order) for name, value in sums.items()}
        row["seconds"] = time.perf_counter() - began
        log.append(row)
        print(epoch, {name: round(value, 4) for name, value in row.items()}, flush=True)
    return log


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--passages", type=Path, nargs="+", default=[DATA / "passages.jsonl"])
    parser.add_argument("--rewrites", type=Path, nargs="+", required=True)
    parser.add_argument("--mixture", type=float, nargs="+")
    parser.add_argument("--most", type=int)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, value in asdict(Weights()).items():
        parser.add_argument(f"--{name}", type=float, default=value)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    rng = np.random.default_rng(given.seed)
    weights = Weights(**{name: getattr(given, name) for name in asdict(Weights())})
    encoder = SentenceEncoder(given.base, rank=given.rank, device=given.device)
    encoder.eval()  # no dropout: it would move a sentence away from its rewrite
    corpus = Corpus(given.passages, given.rewrites, encoder, given.most)
    log = train(
        encoder,
        corpus,
        weights=weights,
        mixture=shares([path.name for path in given.rewrites], given.mixture),
        epochs=given.epochs,
        batch=given.batch,
        rate=given.rate,
        rng=rng,
    )
    encoder.save(given.out / "additions.safetensors")
    recipe = {
        **asdict(weights),
        "rewrites": [path.name for path in given.rewrites],
        "mixture": given.mixture,
        "passages": len(corpus.passages),
        "sentences": len(corpus.rows),
        "rank": given.rank,
        "epochs": given.epochs,
        "batch": given.batch,
        "rate": given.rate,
        "seed": given.seed,
        "log": log,
    }
    (given.out / "recipe.json").write_text(json.dumps(recipe, indent=1) + "\n")


if __name__ == "__main__":
    main()
