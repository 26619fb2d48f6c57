"""The cost of token-level methods.

    python benchmarks/tokens.py --texts 1 64

All methods write the same number of texts from the same prompts, with the same model and settings,
one method after another in every round. A time is that of a step, one more token for every text,
including the model, the logits processor, and the encoder if the method has one. Ratios are to
plain generation in the same round; printed are their median and range over rounds. ``in the
engine`` is the median of the steps that draw a token for every text, without the processing of
prompts, which matters if few tokens are written.
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


def seconds_per_step(text_writer: Writer, texts: int, *, seed: int) -> tuple[float, float]:
    """Wall time per token of the longest text, and per step of the engine.

    Every run has its own prompts, so that none is cached. If the model ends every text before half
    of its tokens, the run is repeated with other prompts.
    """
    attempt = 0
    while True:
        prompts = [f"{seed}, {attempt}, {n}. {OPENINGS[n % len(OPENINGS)]}" for n in range(texts)]
        start = time.perf_counter()
        with StepClock(texts) as clock:
            texts_written = text_writer.write_many(
                [Prompt(prompt) for prompt in prompts], seed=seed + 1000 * attempt
            )
        duration = time.perf_counter() - start
        steps = max(text.cost.tokens for text in texts_written)
        if 2 * steps >= text_writer.config.max_tokens and clock.seconds:
            return duration / steps, float(np.median(clock.seconds))
        attempt += 1


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
        variants = {"plain": None, **marks}
        writers = {
            name: Writer(backend, splitter, encoder, mark, config)
            for name, mark in variants.items()
        }
        for text_writer in writers.values():
            seconds_per_step(text_writer, texts, seed=0)  # warm-up: records graphs
        timings: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for number in range(1, options.rounds + 1):
            for place, (name, text_writer) in enumerate(writers.items()):
                seed = 100 * number + place
                timings[name].append(seconds_per_step(text_writer, texts, seed=seed))
        plain = np.array(timings["plain"])  # (rounds, 2)
        for name, times in timings.items():
            seconds, engine_seconds = np.array(times).T
            ratios = seconds / plain[:, 0]
            report = {
                "texts at once": texts,
                "method": name,
                "ms per step": round(1e3 * float(np.median(seconds)), 3),
                "over plain": round(float(np.median(ratios)), 3),
                "from": round(float(ratios.min()), 3),
                "to": round(float(ratios.max()), 3),
                "in the engine, over plain": round(
                    float(np.median(engine_seconds / plain[:, 1])), 3
                ),
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
