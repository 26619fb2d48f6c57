"""Fine-tune an encoder so that rewording hardly moves the embedding of a sentence.

python -m research.training.finetune --base FOLDER --start RUN --rewrites FILES --pools FILE
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils import parametrize

from research.training.encoder import MAX_TOKENS, SentenceEncoder
from research.training.files import DATA, read_passages, read_rewrites
from research.training.objective import Batch, Common, Weights, loss

GROUPS = 2
"""Sentences of a batch are encoded in this many groups of similar length, to save padding."""
FITTING, EVERY = 600, 20
"""Passages that common directions are fitted on, and steps after which they are fitted again."""


class Corpus:
    """Training passages and pools as tokens on the model's device.

    Args:
        passages: files; a passage is used if the first rewriter processed all its sentences.
        pools: files of pools; the actual next sentence belongs to its pool.
        rewrites: files, one for each rewriter.
        encoder: gives the tokenizer and the device.
        most: most passages.

    Attributes:
        groups: sentence numbers of each passage and pool, passages first.
        passages: the number of passages.
        rows: the indices of the tokens of each sentence and its rewrites, -1 for a missing one:
            (sentences, 1 + r).
    """

    def __init__(
        self,
        passages: list[Path],
        pools: list[Path],
        rewrites: list[Path],
        encoder: SentenceEncoder,
        *,
        most: int | None = None,
    ) -> None:
        tables = [read_rewrites(each) for each in rewrites]
        self.groups: list[np.ndarray] = []
        texts: dict[str, int] = {}
        rows: list[list[int]] = []

        def add(sentences: list[str]) -> None:
            begin = len(rows)
            for sentence in dict.fromkeys(sentences):
                encoded = [
                    sentence,
                    *(usable(table.get(sentence, ""), sentence) for table in tables),
                ]
                rows.append(
                    [texts.setdefault(each, len(texts)) if each.strip() else -1 for each in encoded]
                )
            self.groups.append(np.arange(begin, len(rows)))

        for path in passages:
            for row in read_passages(path, split="train"):
                if len(self.groups) == most:
                    break
                if all(sentence in tables[0] for sentence in row["sentences"]):
                    add(row["sentences"])
        self.passages = len(self.groups)
        for path in pools:
            for row in read_passages(path, split="train"):
                if len(row["sentences"]) > 3:
                    add([*row["sentences"], row["next"]])
        self.rows = np.array(rows)
        tokenizer = encoder.tokenizer.backend_tokenizer
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        encoded = [each.ids for each in tokenizer.encode_batch_fast(list(texts))]
        self.lengths = np.array([len(ids) for ids in encoded])
        table = np.zeros((len(encoded), self.lengths.max()), np.int32)
        table[np.arange(table.shape[1]) < self.lengths[:, None]] = np.concatenate(encoded)
        self.tokens = torch.as_tensor(table, device=encoder.device)

    def embed(self, encoder: SentenceEncoder, rows: np.ndarray) -> torch.Tensor:
        """Embeddings of some rows of tokens, in a few groups of similar length."""
        order = np.argsort(self.lengths[rows], kind="stable")
        parts = []
        for group in np.array_split(order, GROUPS):
            # Limit the number of shapes: each new one costs an autotuning search on the GPU.
            longest = min(-(-int(self.lengths[rows[group]].max()) // 16) * 16, self.tokens.shape[1])
            chosen = torch.as_tensor(rows[group], device=encoder.device)
            tokens = self.tokens[chosen, :longest]
            sizes = torch.as_tensor(self.lengths[rows[group]], device=encoder.device)
            mask = torch.arange(longest, device=encoder.device) < sizes[:, None]
            parts.append(encoder({"input_ids": tokens, "attention_mask": mask.long()}))
        back = torch.as_tensor(np.argsort(order), device=encoder.device)
        return torch.cat(parts)[back]

    def embed_all(self, encoder: SentenceEncoder, rows: np.ndarray) -> torch.Tensor:
        """Embeddings of any number of rows, without gradients."""
        with torch.no_grad():
            parts = [
                self.embed(encoder, rows[begin : begin + 4096])
                for begin in range(0, len(rows), 4096)
            ]
        return torch.cat(parts)

    def drop_strays(self, encoder: SentenceEncoder, least: float) -> float:
        """Drop rewrites that lost the meaning; return their share.

        Args:
            encoder: the encoder before training.
            least: least cosine of a sentence and its rewrite.
        """
        embeddings = self.embed_all(encoder, np.arange(len(self.lengths)))
        originals, others = self.rows[:, :1], self.rows[:, 1:]
        cosines = torch.stack(
            [(embeddings[originals[:, 0]] * embeddings[column]).sum(dim=-1) for column in others.T],
            dim=1,
        )
        stray = (cosines.cpu().numpy() < least) & (others >= 0)
        share = stray.sum() / max(1, (others >= 0).sum())
        others[stray] = -1
        return float(share)

    def choose(
        self, sentences: np.ndarray, mixture: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """For each sentence the token row of one of its rewrites, or its own if it has none."""
        candidates = self.rows[sentences]
        exists = candidates[:, 1:] >= 0
        with np.errstate(divide="ignore"):
            log_weights = np.where(exists, np.log(mixture), -np.inf)
        kinds = 1 + (log_weights + rng.gumbel(size=log_weights.shape)).argmax(axis=1)
        kinds[~exists.any(axis=1)] = 0
        chosen: np.ndarray = candidates[np.arange(len(candidates)), kinds]
        return chosen

    def fit_common(self, encoder: SentenceEncoder, count: int, rng: np.random.Generator) -> Common:
        """The common directions of the current encoder, fitted on some of the passages."""
        chosen = rng.permutation(self.passages)[:FITTING]
        groups = [self.groups[number] for number in chosen]
        embeddings = self.embed_all(encoder, self.rows[np.concatenate(groups), 0])
        return Common.of(embeddings, [len(group) for group in groups], count=count)


def usable(rewrite: str, sentence: str) -> str:
    """The rewrite; empty if it changes nothing or is far too long."""
    return rewrite if rewrite != sentence and len(rewrite) <= 2 * len(sentence) + 20 else ""


def shares(count: int, mixture: list[float] | None) -> np.ndarray:
    """The share of each rewriter for sentences that have a rewrite by all."""
    weights = np.array(mixture or [1.0] * count)
    parts: np.ndarray = weights / weights.sum()
    return parts


def train(
    encoder: SentenceEncoder,
    corpus: Corpus,
    *,
    weights: Weights,
    mixture: np.ndarray,
    directions: int,
    epochs: int,
    batch: int,
    rate: float,
    rng: np.random.Generator,
) -> Iterator[dict[str, float]]:
    """Train on the passages and pools; yield the mean of each term after each epoch."""
    device = encoder.device
    parameters = [p for p in encoder.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
    steps = epochs * math.ceil(len(corpus.groups) / batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda step: min(1.0, step / (0.05 * steps)) * 0.5 * (1 + math.cos(math.pi * step / steps)),
    )
    for _ in range(epochs):
        start = time.perf_counter()
        sums: dict[str, torch.Tensor] = {}
        order = rng.permutation(len(corpus.groups))
        for begin in range(0, len(order), batch):
            if begin // batch % EVERY == 0:
                common = corpus.fit_common(encoder, directions, rng)
            numbers = order[begin : begin + batch]
            chosen = [corpus.groups[number] for number in numbers]
            sentences = np.concatenate(chosen)
            group = np.repeat(numbers, [len(each) for each in chosen])
            rows = corpus.rows[sentences, 0]
            token_rows = np.concatenate([rows, corpus.choose(sentences, mixture, rng)])
            with (
                torch.autocast(device.split(":")[0], dtype=torch.bfloat16),
                parametrize.cached(),
            ):
                embeddings = corpus.embed(encoder, token_rows)
            residuals = common.remove(embeddings)
            layout = Batch(
                *(
                    torch.as_tensor(each, device=device)
                    for each in (rows, group, group >= corpus.passages)
                )
            )
            terms = loss(residuals[: len(sentences)], residuals[len(sentences) :], layout, weights)
            optimiser.zero_grad(set_to_none=True)
            terms["total"].backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            schedule.step()
            for name, value in terms.items():
                sums[name] = value.detach() * len(chosen) + sums.get(name, 0.0)
        row = {name: float(value) / len(order) for name, value in sums.items()}
        row["seconds"] = time.perf_counter() - start
        yield row


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="a run to continue, which also sets the rank")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--passages", type=Path, nargs="+", default=[DATA / "passages.jsonl"])
    parser.add_argument("--pools", type=Path, nargs="*", default=[])
    parser.add_argument("--rewrites", type=Path, nargs="+", required=True)
    parser.add_argument("--mixture", type=float, nargs="+")
    parser.add_argument("--least", type=float, default=0.4, help="cosine of a rewrite at the start")
    parser.add_argument("--directions", type=int, default=32, help="taken off in the loss")
    parser.add_argument("--most", type=int)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=64, help="passages and pools")
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, value in asdict(Weights()).items():
        parser.add_argument(f"--{name}", type=float, default=value)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    weights = Weights(**{name: getattr(options, name) for name in asdict(Weights())})
    if options.start:
        options.rank = json.loads((options.start / "recipe.json").read_text())["rank"]
    encoder = SentenceEncoder(options.base, rank=options.rank, device=options.device)
    if options.start:
        encoder.load(options.start / "additions.safetensors")
    encoder.eval()  # no dropout, which would separate a sentence from its rewrite
    corpus = Corpus(options.passages, options.pools, options.rewrites, encoder, most=options.most)
    strays = corpus.drop_strays(encoder, options.least)
    recipe: dict[str, object] = {
        **asdict(weights),
        "start": options.start.name if options.start else None,
        "rewrites": [path.name for path in options.rewrites],
        "mixture": options.mixture,
        "passages": corpus.passages,
        "pools": len(corpus.groups) - corpus.passages,
        "sentences": len(corpus.rows),
        "strays": strays,
        "least": options.least,
        "directions": options.directions,
        "rank": options.rank,
        "epochs": options.epochs,
        "batch": options.batch,
        "rate": options.rate,
        "seed": options.seed,
    }
    print(json.dumps(recipe), flush=True)
    log: list[dict[str, float]] = []
    for row in train(
        encoder,
        corpus,
        weights=weights,
        mixture=shares(len(options.rewrites), options.mixture),
        directions=options.directions,
        epochs=options.epochs,
        batch=options.batch,
        rate=options.rate,
        rng=rng,
    ):
        print(len(log), {name: round(value, 4) for name, value in row.items()}, flush=True)
        log.append(row)
        encoder.save(options.out / "additions.safetensors")  # an interrupted run leaves a result
        (options.out / "recipe.json").write_text(json.dumps(recipe | {"log": log}, indent=1) + "\n")


if __name__ == "__main__":
    main()
