"""Fit the distribution of SynthID's g-values in marked text: the card of the likelihood ratio.

    python -m research.training.tournament --passages FILE --model FOLDER-OR-GGUF

A model reads human passages, which gives its distribution of the next token at every position. For
each, fair bits are drawn as g-values of the likeliest tokens, the tournament is played on the
probabilities, a token is drawn from the outcome, and its g-values are kept. They are distributed
like those of marked text, without a hash or a key. The parameters maximise their likelihood.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hammingmark.pretrained import load
from hammingmark.watermarks.synthid.g_statistics import LikelihoodCard, save_card
from hammingmark.watermarks.synthid.tournament import play

TOP_K = 50
LONGEST = 256
"""Tokens of a passage to read."""
FIRST = 8
"""First positions of a passage, left out because they have little context."""
_CHUNK = 4096  # distributions at a time
_PENALTY = 1e-3  # weight of the squared slopes, and of how far neighbouring levels lie apart


def distributions(model: Any, tokenizer: Any, texts: list[str]) -> NDArray[np.float32]:
    """Probabilities of the likeliest tokens at every position of some texts, (n, k)."""
    probabilities = []
    for text in texts:
        ids = torch.tensor([tokenizer(text).input_ids[:LONGEST]], device=model.device)
        with torch.inference_mode():
            logits = model(ids).logits[0, FIRST:-1].float()
        probabilities.append(logits.topk(TOP_K, dim=-1).values.softmax(dim=-1).cpu().numpy())
    return np.concatenate(probabilities)


def winners(
    shares: NDArray[np.float32], *, depth: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The g-values (n, depth) of tokens chosen by the tournament from probabilities (n, k)."""
    chosen_g_values = []
    for begin in range(0, len(shares), _CHUNK):
        part = shares[begin : begin + _CHUNK].astype(np.float64)
        g_values = rng.integers(0, 2, size=(*part.shape, depth), dtype=np.int8)
        cumulated = np.cumsum(play(part, g_values), axis=-1)
        uniforms = rng.random((len(part), 1)) * cumulated[:, -1:]
        chosen = (cumulated <= uniforms).sum(axis=-1)
        chosen_g_values.append(g_values[np.arange(len(part)), chosen])
    return np.concatenate(chosen_g_values).astype(np.int64)


def log_ratios(g_values: torch.Tensor, level: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """The log-likelihood ratio of each token: (n, depth) to (n,)."""
    bits = g_values.to(level.dtype) - 0.5
    weights = torch.sigmoid(level + slope * (bits.cumsum(dim=-1) - bits))
    return torch.log1p(bits * weights).sum(dim=-1)


def fit(g_values: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The level and the slope, (depth,) each, that fit g-values (n, depth) of marked tokens."""
    bits = torch.from_numpy(g_values)
    level = torch.full((bits.shape[1],), -1.0, dtype=torch.float64, requires_grad=True)
    slope = torch.zeros(bits.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([level, slope], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        apart = slope.square().sum() + level.diff().square().sum()
        value = _PENALTY * apart - log_ratios(bits, level, slope).mean()
        value.backward()
        return value

    optimiser.step(loss)
    return level.detach().numpy(), slope.detach().numpy()


def sha256_of(texts: list[str]) -> str:
    """SHA-256 of texts, in hex."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=Path, required=True, help="of training.corpus")
    parser.add_argument("--model", required=True, help="a transformers folder or a GGUF file")
    parser.add_argument("--out", type=Path, required=True, help="the card")
    parser.add_argument("--texts", type=int, default=160, help="passages to fit on")
    parser.add_argument("--heldout", type=int, default=60, help="passages to measure on")
    parser.add_argument("--depth", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    texts: dict[str, list[str]] = {"train": [], "heldout": []}
    with options.passages.open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            texts[row["split"]].append(" ".join(row["sentences"]))
    loaded = load("AutoModelForCausalLM", options.model, dtype="float32")
    rng = np.random.default_rng(options.seed)
    bits = {}
    for split, most in (("train", options.texts), ("heldout", options.heldout)):
        shares = distributions(loaded.model, loaded.tokenizer, texts[split][:most])
        bits[split] = winners(shares, depth=options.depth, rng=rng)
    level, slope = fit(bits["train"])
    held = torch.from_numpy(bits["heldout"])
    ratios = log_ratios(held, torch.from_numpy(level), torch.from_numpy(slope))
    weights = np.linspace(10.0, 1.0, options.depth)
    about = {
        "model": Path(options.model).name,
        "sampling": f"temperature 1, top-k {TOP_K}",
        "texts": options.texts,
        "tokens": len(bits["train"]),
        "sha256": sha256_of(texts["train"][: options.texts]),
        "seed": options.seed,
        "heldout_tokens": len(held),
        "heldout_ratio": round(float(ratios.mean()), 4),
        "heldout_mean": round(float(held.double().mean()), 4),
        "heldout_weighted_mean": round(
            float((bits["heldout"] @ weights).mean() / weights.sum()), 4
        ),
    }
    options.out.write_bytes(save_card(LikelihoodCard(level, slope, about)))
    print(json.dumps(about, indent=1))


if __name__ == "__main__":
    main()
