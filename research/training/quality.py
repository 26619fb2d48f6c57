"""How written texts read: perplexity by another model, and what they repeat.

    python -m research.training.quality FILES --model transformers-folder-or-GGUF

The files are those of ``benchmarks/evidence.py``. Perplexity is per token of the second model,
given the prompt but not counting it: exp of the mean negative log-likelihood over all tokens.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hammingmark.assembly.parts import load_splitter
from hammingmark.evaluation.metrics import bootstrap, mean_repetition, near_copies
from hammingmark.pretrained import load

LONGEST = 1024


def surprise(model: Any, tokenizer: Any, prompt: str, text: str) -> tuple[float, int]:
    """Negative log-likelihood of a text after its prompt, in nats, and its number of tokens."""
    before = tokenizer(prompt + " ").input_ids
    tokens = tokenizer(text).input_ids
    ids = torch.tensor([(before + tokens)[:LONGEST]], device=model.device)
    with torch.inference_mode():
        logits = model(ids).logits[0, len(before) - 1 : -1].float()
    targets = ids[0, len(before) :]
    loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    return float(loss), len(targets)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--model", required=True, help="the second model")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    dtype = "bfloat16" if "cuda" in given.device else "float32"
    loaded = load("AutoModelForCausalLM", given.model, device=given.device, dtype=dtype)
    splitter = load_splitter()
    rng = np.random.default_rng(0)
    for path in given.texts:
        with path.open(encoding="utf-8") as file:
            rows = [row for line in file if (row := json.loads(line))["text"].strip()]
        found = np.array(
            [surprise(loaded.model, loaded.tokenizer, row["prompt"], row["text"]) for row in rows]
        )

        def perplexity(chosen: Any, found: Any = found) -> float:
            loss, count = found[np.asarray(chosen, dtype=np.intp)].sum(axis=0)
            return float(np.exp(loss / count))

        every = np.arange(len(rows))
        low, high = bootstrap(perplexity, every, rng=rng, rounds=400)
        texts = [row["text"] for row in rows]
        report = {
            "texts": len(rows),
            "perplexity": round(perplexity(every), 2),
            "interval": [round(low, 2), round(high, 2)],
            "rep-4": round(mean_repetition(texts), 4),
            "near_copies": round(near_copies([splitter.split(t).carrying for t in texts]), 4),
        }
        print(path.stem, json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
