"""The quality of generated texts: perplexity under another model, and repetition.

    python -m research.training.quality FILES --model transformers-folder-or-GGUF

The files are those of ``research/studies/evidence.py``. Perplexity is exp of the mean
negative log-likelihood over all tokens of the second model, given the prompt but not counting it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from hammingmark.assembly.parts import load_splitter
from hammingmark.evaluation.progress import shown
from hammingmark.evaluation.quality import (
    PretrainedLikelihood,
    measure_likelihood,
    perplexity,
    reading_quality,
)
from hammingmark.evaluation.rows import read_rows


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--model", required=True, help="the second model")
    parser.add_argument("--device", help="by default a CUDA device if there is one")
    parser.add_argument("--dtype", default="float32", help="bfloat16 is faster on CUDA")
    options = parser.parse_args()
    model = PretrainedLikelihood(options.model, device=options.device, dtype=options.dtype)
    splitter = load_splitter()
    for path in options.texts:
        rows = [row for row in read_rows(path) if row["text"].strip()]
        likelihoods = measure_likelihood(rows, model, progress=shown)
        result = perplexity(likelihoods, rng=np.random.default_rng(0))
        quality = reading_quality([row["text"] for row in rows], splitter)
        report = {
            "texts": len(rows),
            "perplexity": round(result.value, 2),
            "interval": [round(result.low, 2), round(result.high, 2)],
            **{name: round(value, 4) for name, value in quality.items()},
        }
        print(path.stem, json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
