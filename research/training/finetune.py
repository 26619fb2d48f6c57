"""Fine-tune an encoder so that rewording does not move a sentence.

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
"""Sentences of a batch are read in so many groups of like length, to save padding."""
FITTING, EVERY = 600, 20
"""What is common is fitted on so many passages, and again after so many steps."""


class Corpus:
    """Training passages and pools as tokens, read once and kept where the model computes.

    Args:
        passages: files; a passage is used if the first rewriter went through all of it.
        pools: files of pools; the sentence that really came next belongs to its pool.
        rewrites: files, one for each rewriter.
        encoder: its tokenizer, and where it computes.
        most: passages at most.

    Attributes:
        groups: sentence numbers of each passage and pool, passages first.
        passages: how many of them are passages.
        rows: where each sentence's tokens lie, and those of its rewrites, -1 where there is none:
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
        known = [read_rewrites(each) for each in rewrites]
        self.groups: list[np.ndarray] = []
        texts: dict[str, int] = {}
        rows: list[list[int]] = []

        def add(sentences: list[str]) -> None:
            begin = len(rows)
            for sentence in dict.fromkeys(sentences):
                found = [sentence, *(usable(table.get(sentence, ""), sentence) for table in known)]
                rows.append(
                    [texts.setdefault(each, len(texts)) if each.strip() else -1 for each in found]
                )
            self.groups.append(np.arange(begin, len(rows)))

        for path in passages:
            for row in read_passages(path, split="train"):
                if len(self.groups) == most:
                    break
                if all(sentence in known[0] for sentence in row["sentences"]):
                    add(row["sentences"])
        self.passages = len(self.groups)
        for path in pools:
            for row in read_passages(path, split="train"):
                if len(row["sentences"]) > 3:
                    add([*row["sentences"], row["next"]])
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

    def embed_all(self, encoder: SentenceEncoder, rows: np.ndarray) -> torch.Tensor:
        """The same without gradients, for any number of rows."""
        with torch.no_grad():
            parts = [
                self.embed(encoder, rows[begin : begin + 4096])
                for begin in range(0, len(rows), 4096)
            ]
        return torch.cat(parts)

    def drop_strays(self, encoder: SentenceEncoder, least: float) -> float:
        """Forget rewrites that are no longer about the same thing; the share of them.

        Args:
            encoder: as it is before training.
            least: the cosine of a sentence and its rewrite that is wanted.
        """
        made = self.embed_all(encoder, np.arange(len(self.lengths)))
        own, others = self.rows[:, :1], self.rows[:, 1:]
        cosines = torch.stack(
            [(made[own[:, 0]] * made[column]).sum(dim=-1) for column in others.T], dim=1
        )
        stray = (cosines.cpu().numpy() < least) & (others >= 0)
        share = stray.sum() / max(1, (others >= 0).sum())
        others[stray] = -1
        return float(share)

    def choose(
        self, sentences: np.ndarray, mixture: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """For each sentence one of its rewrites, or itself if it has none: rows of tokens."""
        found = self.rows[sentences]
        there = found[:, 1:] >= 0
        with np.errstate(divide="ignore"):
            chances = np.where(there, np.log(mixture), -np.inf)
        kinds = 1 + (chances + rng.gumbel(size=chances.shape)).argmax(axis=1)
        kinds[~there.any(axis=1)] = 0
        chosen: np.ndarray = found[np.arange(len(found)), kinds]
        return chosen

    def fit_common(self, encoder: SentenceEncoder, count: int, rng: np.random.Generator) -> Common:
        """What human sentences have in common as the encoder is now, on some of the passages."""
        chosen = rng.permutation(self.passages)[:FITTING]
        groups = [self.groups[number] for number in chosen]
        made = self.embed_all(encoder, self.rows[np.concatenate(groups), 0])
        return Common.of(made, [len(group) for group in groups], count=count)


def usable(rewrite: str, sentence: str) -> str:
    """The rewrite; empty if it changes nothing, or goes on and on."""
    return rewrite if rewrite != sentence and len(rewrite) <= 2 * len(sentence) + 20 else ""


def shares(count: int, given: list[float] | None) -> np.ndarray:
    """How often each of so many rewriters is used, where a sentence has all."""
    weights = np.array(given or [1.0] * count)
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
    """Go over the passages and pools; after each epoch, the mean of each term."""
    device = encoder.device
    parameters = [p for p in encoder.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
    steps = epochs * math.ceil(len(corpus.groups) / batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda step: min(1.0, step / (0.05 * steps)) * 0.5 * (1 + math.cos(math.pi * step / steps)),
    )
    for _ in range(epochs):
        began = time.perf_counter()
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
            both = np.concatenate([rows, corpus.choose(sentences, mixture, rng)])
            with (
                torch.autocast(device.split(":")[0], dtype=torch.bfloat16),
                parametrize.cached(),
            ):
                made = corpus.embed(encoder, both)
            left = common.take_off(made)
            what = Batch(
                *(
                    torch.as_tensor(each, device=device)
                    for each in (rows, group, group >= corpus.passages)
                )
            )
            terms = loss(left[: len(sentences)], left[len(sentences) :], what, weights)
            optimiser.zero_grad(set_to_none=True)
            terms["total"].backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            schedule.step()
            for name, value in terms.items():
                sums[name] = value.detach() * len(chosen) + sums.get(name, 0.0)
        row = {name: float(value) / len(order) for name, value in sums.items()}
        row["seconds"] = time.perf_counter() - began
        yield row


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="a run to go on from, of which the rank is kept")
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
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    rng = np.random.default_rng(given.seed)
    weights = Weights(**{name: getattr(given, name) for name in asdict(Weights())})
    if given.start:
        given.rank = json.loads((given.start / "recipe.json").read_text())["rank"]
    encoder = SentenceEncoder(given.base, rank=given.rank, device=given.device)
    if given.start:
        encoder.load(given.start / "additions.safetensors")
    encoder.eval()  # no dropout: it would move a sentence away from its rewrite
    corpus = Corpus(given.passages, given.pools, given.rewrites, encoder, most=given.most)
    strays = corpus.drop_strays(encoder, given.least)
    recipe: dict[str, object] = {
        **asdict(weights),
        "start": given.start.name if given.start else None,
        "rewrites": [path.name for path in given.rewrites],
        "mixture": given.mixture,
        "passages": corpus.passages,
        "pools": len(corpus.groups) - corpus.passages,
        "sentences": len(corpus.rows),
        "strays": strays,
        "least": given.least,
        "directions": given.directions,
        "rank": given.rank,
        "epochs": given.epochs,
        "batch": given.batch,
        "rate": given.rate,
        "seed": given.seed,
    }
    print(json.dumps(recipe), flush=True)
    log: list[dict[str, float]] = []
    for row in train(
        encoder,
        corpus,
        weights=weights,
        mixture=shares(len(given.rewrites), given.mixture),
        directions=given.directions,
        epochs=given.epochs,
        batch=given.batch,
        rate=given.rate,
        rng=rng,
    ):
        print(len(log), {name: round(value, 4) for name, value in row.items()}, flush=True)
        log.append(row)
        encoder.save(given.out / "additions.safetensors")  # a run that breaks off leaves something
        (given.out / "recipe.json").write_text(json.dumps(recipe | {"log": log}, indent=1) + "\n")


if __name__ == "__main__":
    main()
