"""Train the network from a context's embedding to the signs by which SIR biases tokens.

    python -m research.training.transform --encoder minilm-mark --out FILE

Contexts are beginnings of training passages, of one to three chunks of ten words. The network
preserves and amplifies similarity: contexts more similar than the median pair should have equal
signs, others opposite ones, and half of the signs of each context should be positive (Liu et al.,
2024).
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hammingmark._version import __version__
from hammingmark.artifacts.network import (
    TransformNetwork,
    TransformProvenance,
    apply_network,
    balanced_signs,
    save_transform,
)
from hammingmark.assembly.encoders import load_encoder
from hammingmark.keys.config import EncoderId
from hammingmark.protocols import FloatArray
from hammingmark.text.word_chunks import WordChunks
from research.training.files import DATA, Passage, first_passages, read_passages
from research.training.noise import rewrite
from research.training.profile_texts import GENRES

CHUNK = 10
MOST_CHUNKS = 3
SIGNS = 300
WIDTH = 128
BLOCKS = 2
STEEP = 20.0
BATCH = 250
LEAST = 0.05  # desired least absolute value of the outputs
BALANCE = 0.1


def contexts_of(passages: Sequence[Passage], rng: np.random.Generator) -> Iterator[str]:
    """One context of each passage that is long enough."""
    chunks = WordChunks(CHUNK, MOST_CHUNKS)
    for passage in passages:
        text = " ".join(passage["sentences"]) + " "
        contexts, _ = chunks.contexts(text, [])
        if contexts:
            yield contexts[int(rng.integers(min(MOST_CHUNKS, len(contexts))))]


class Transform(nn.Module):  # type: ignore[misc]
    """Embeddings (n, d) to (n, o); `artifacts.network` computes the same."""

    def __init__(self, dimension: int, *, width: int = WIDTH, signs: int = SIGNS) -> None:
        super().__init__()
        self.first = nn.Linear(dimension, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(BLOCKS))
        self.last = nn.Linear(width, signs)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """(n, d) to (n, o)."""
        x = torch.relu(self.first(rows))
        for block in self.blocks:
            x = x + torch.relu(block(x))
        values: torch.Tensor = self.last(x)
        return values

    def layers(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """The weights, rounded to the precision of the file."""
        return tuple(
            (_rounded(each.weight), _rounded(each.bias))
            for each in (self.first, *self.blocks, self.last)
        )


def loss_of(values: torch.Tensor, rows: torch.Tensor, *, median: float) -> torch.Tensor:
    """The loss of outputs (n, o) for embeddings (n, d)."""
    off_diagonal = ~torch.eye(len(rows), dtype=torch.bool)
    target = torch.tanh(STEEP * (rows @ rows.T - median))
    units = nn.functional.normalize(values, dim=1)
    distance = (target - units @ units.T)[off_diagonal].abs().mean()
    balance = values.mean(dim=0).square().mean() + values.mean(dim=1).square().mean()
    small = torch.relu(LEAST - values.abs()).mean()
    return distance + BALANCE * balance + small


def fit(
    embeddings: FloatArray, *, steps: int, rate: float, seed: int, width: int = WIDTH
) -> tuple[Transform, float]:
    """A network for embeddings (n, d), and its loss over the last hundred steps."""
    torch.manual_seed(seed)
    rows = torch.from_numpy(embeddings)
    median = float(np.median(cosines_of(embeddings)))
    network = Transform(rows.shape[1], width=width)
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    recent: list[float] = []
    for step in range(steps):
        batch = rows[torch.randperm(len(rows))[:BATCH]]
        loss = loss_of(network(batch), batch, median=median)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        recent = [*recent[-99:], float(loss.detach())]
        if step % 500 == 0:
            print(f"step {step}: {np.mean(recent):.3f}", flush=True)
    return network, float(np.mean(recent))


def cosines_of(rows: NDArray[Any]) -> NDArray[Any]:
    """The cosines of all pairs of unit rows (n, d)."""
    products = rows @ rows.T
    cosines: NDArray[Any] = products[np.triu_indices(len(rows), 1)]
    return cosines


def describe(network: TransformNetwork, rows: FloatArray, rewritten: FloatArray) -> str:
    """Statistics of the signs for embeddings (n, d) and those of the same texts rewritten."""
    signs, again = (
        balanced_signs(apply_network(each, network.layers)) for each in (rows, rewritten)
    )
    share = cosines_of(signs) / signs.shape[1]
    kept = (signs * again).mean(axis=1)
    spread = np.linalg.eigvalsh(np.cov(signs.T))
    return "\n".join(
        [
            f"cosines of signs, two contexts: {_quantiles(share)}",
            f"a context and its rewrite:      {_quantiles(kept)}, mean {kept.mean():.3f}",
            f"their embeddings:               {_quantiles((rows * rewritten).sum(axis=1))}",
            f"correlation with cosines: {np.corrcoef(cosines_of(rows), share)[0, 1]:.2f}",
            f"mean sign of a context: at most {np.abs(signs.mean(axis=1)).max():.2f}; of a "
            f"dimension: at most {np.abs(signs.mean(axis=0)).max():.2f}",
            f"dimensions in effect: {spread.sum() ** 2 / (spread**2).sum():.1f}",
        ]
    )


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--passages", type=Path, default=DATA / "passages.jsonl")
    parser.add_argument("--contexts", type=int, default=2000)
    parser.add_argument("--heldout", type=int, default=400)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--rate", type=float, default=0.006)
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    encoder = load_encoder(options.encoder)
    passages = first_passages(
        options.passages, split="train", most=options.contexts // len(GENRES), genres=GENRES
    )
    contexts = list(contexts_of(passages, rng))
    print(f"{len(contexts)} contexts")
    torch.set_num_threads(1)  # the layers are small: more threads wait for each other
    network, loss = fit(
        encoder.encode(contexts),
        steps=options.steps,
        rate=options.rate,
        seed=options.seed,
        width=options.width,
    )
    trained = TransformNetwork(
        EncoderId.of(encoder),
        network.layers(),
        TransformProvenance(
            contexts=len(contexts),
            sha256=hashlib.sha256("\x00".join(contexts).encode()).hexdigest(),
            seed=options.seed,
            steps=options.steps,
            loss=round(loss, 4),
            version=__version__,
            torch=torch.__version__,
        ),
    )
    content = save_transform(trained)
    options.out.write_bytes(content)
    print(f"{options.out}: {len(content):,} bytes, loss {loss:.3f}")
    heldout = list(read_passages(options.passages, split="heldout"))[: options.heldout]
    changed = [
        replace_sentences(each, [rewrite(sentence, rng) for sentence in each["sentences"]])
        for each in heldout
    ]
    pairs = zip(
        contexts_of(heldout, np.random.default_rng(1)),
        contexts_of(changed, np.random.default_rng(1)),
        strict=True,
    )
    befores, afters = zip(*pairs, strict=True)
    print(describe(trained, encoder.encode(befores), encoder.encode(afters)))


def replace_sentences(passage: Passage, sentences: list[str]) -> Passage:
    """The passage with other sentences."""
    return {**passage, "sentences": sentences}


def _rounded(values: torch.Tensor) -> FloatArray:
    array: FloatArray = values.detach().numpy().astype(np.float16).astype(np.float32)
    return array


def _quantiles(values: NDArray[Any]) -> str:
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return f"5 % {low:.2f}, median {middle:.2f}, 95 % {high:.2f}"


if __name__ == "__main__":
    main()
