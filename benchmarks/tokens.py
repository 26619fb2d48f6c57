"""What token-level methods cost.

    python benchmarks/tokens.py --texts 1 64

All write the same number of texts from the same prompts, with the same model and settings, one
method after another, round after round. A time is that of a step, one token more for every text,
everything included: the model, the processor of logits, and the encoder where a method has one.
Ratios are to plain generation of the same round; what is printed is their median and their spread
over rounds. ``in the engine`` is the median of the steps that draw a token for every text, without
the reading of prompts, which counts for much where few tokens are written.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import method_of
from hammingmark.assembly.parts import load_splitter
from hammingmark.backends.batching.engine import BatchEngine
from hammingmark.evaluation.keys import ExperimentKeys
from hammingmark.generation.generate import GenerationConfig, Writer
from hammingmark.records import Prompt

METHODS = ("kgw", "kgw/minhash", "morphmark", "synthid", "synthid/hashing=table", "sir")
OPENINGS = (
    "The old lighthouse on the cliff had been empty for years.",
    "Researchers who study the deep sea have found something that nobody expected.",
    "In the spring the council decided to close the bridge to cars.",
    "My grandmother kept her recipes in a tin box under the bed.",
)


class StepClock:
    """The times of the engine's steps in which every text gets a token."""

    def __init__(self, texts: int) -> None:
        self._texts = texts
        self._step = BatchEngine.step
        self.seconds: list[float] = []

    def __enter__(self) -> StepClock:
        clock, step = self, self._step

        def timed(engine: BatchEngine) -> dict[int, int]:
            began = time.perf_counter()
            drawn = step(engine)
            if len(drawn) == clock._texts:
                clock.seconds.append(time.perf_counter() - began)
            return drawn

        BatchEngine.step = timed  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, *problem: object) -> None:
        BatchEngine.step = self._step  # type: ignore[method-assign]


def seconds_per_step(made: Writer, texts: int, *, seed: int) -> tuple[float, float]:
    """Wall time of the longest text's tokens, all others written beside it, and of a step alone.

    Prompts are of this run alone, so that none finds its own read already. If the model ends every
    text before half of its tokens, others are written.
    """
    again = 0
    while True:
        asked = [f"{seed}, {again}, {n}. {OPENINGS[n % len(OPENINGS)]}" for n in range(texts)]
        began = time.perf_counter()
        with StepClock(texts) as clock:
            written = made.write_many([Prompt(each) for each in asked], seed=seed + 1000 * again)
        took = time.perf_counter() - began
        steps = max(text.cost.tokens for text in written)
        if 2 * steps >= made.config.max_tokens and clock.seconds:
            return took / steps, float(np.median(clock.seconds))
        again += 1


def cost(options: argparse.Namespace) -> None:
    encoder = load_encoder()
    splitter = load_splitter()
    keys = ExperimentKeys(encoder)
    config = GenerationConfig(max_tokens=options.tokens)
    for texts in options.texts:
        backend = load_backend(options.backend, parallel=texts, context=1024)
        marks = {
            name: method_of(key)
            for name in options.methods
            if (key := keys.key(name, 0)) is not None
        }
        every = {"plain": None, **marks}
        writers = {
            name: Writer(backend, splitter, encoder, mark, config) for name, mark in every.items()
        }
        for made in writers.values():
            seconds_per_step(made, texts, seed=0)  # graphs are recorded
        took: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for number in range(1, options.rounds + 1):
            for place, (name, made) in enumerate(writers.items()):
                seed = 100 * number + place
                took[name].append(seconds_per_step(made, texts, seed=seed))
        plain = np.array(took["plain"])  # (rounds, 2)
        for name, times in took.items():
            seconds, alone = np.array(times).T
            ratios = seconds / plain[:, 0]
            report = {
                "texts at once": texts,
                "method": name,
                "ms per step": round(1e3 * float(np.median(seconds)), 3),
                "over plain": round(float(np.median(ratios)), 3),
                "from": round(float(ratios.min()), 3),
                "to": round(float(ratios.max()), 3),
                "in the engine, over plain": round(float(np.median(alone / plain[:, 1])), 3),
            }
            print(json.dumps(report), flush=True)
        backend.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="transformers:smollm2")
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 64], help="at once")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    cost(parser.parse_args())


if __name__ == "__main__":
    main()
