"""Token-level methods: what each costs, whether its level holds, and how much of a text it moves.

    python benchmarks/tokens.py cost --texts 1 64
    python benchmarks/tokens.py null
    python benchmarks/tokens.py freedom --texts 32

For ``cost`` all write the same number of texts from the same prompts, with the same model and
settings, one method after another, round after round. A time is that of a step, one token more for
every text, everything included: the model, the processor of logits, and the encoder where a method
has one. Ratios are to plain generation of the same round; what is printed is their median and their
spread over rounds. ``in the engine`` is the median of the steps that draw a token for every text,
without the reading of prompts, which counts for much where few tokens are written.

``null`` judges human passages (``research/training/corpus.py``) under many keys, by every
statistic: the share of p-values at each level, the mean and the standard deviation of z, and how
much the shares of keys differ, over what counting alone would do.

``freedom`` writes marked texts and counts their valid tokens: their share, and how much that is of
what the mark could move if all tokens were equally likely (`watermarks._shared.token_scores`).
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from evidence import human_texts, numbered_key, tokenizer

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import method_of
from hammingmark.assembly.parts import load_splitter
from hammingmark.backends.batching.engine import BatchEngine
from hammingmark.detection.detector import Detector
from hammingmark.generation.generate import GenerationConfig, Writer
from hammingmark.records import Prompt
from hammingmark.watermarks._shared.green_lists import GreenConfig, GreenMark
from hammingmark.watermarks.sir import SIR

PASSAGES = Path("research/training/data/passages.jsonl")

LEVELS = (0.05, 0.01, 0.001)
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


def cost(given: argparse.Namespace) -> None:
    encoder = load_encoder()
    splitter = load_splitter()
    config = GenerationConfig(max_tokens=given.tokens)
    for texts in given.texts:
        backend = load_backend(given.backend, parallel=texts, context=1024)
        marks = {name: method_of(numbered_key(0, name, encoder)) for name in given.methods}
        every = {"plain": None, **marks}
        writers = {
            name: Writer(backend, splitter, encoder, mark, config) for name, mark in every.items()
        }
        for made in writers.values():
            seconds_per_step(made, texts, seed=0)  # graphs are recorded
        took: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for number in range(1, given.rounds + 1):
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


def null(given: argparse.Namespace) -> None:
    encoder = load_encoder()
    texts = human_texts(given.passages, given.human)
    for name in given.methods:
        keys = [numbered_key(number, name, encoder) for number in range(given.keys)]
        judge = detector(keys[0], encoder=encoder, tokenizer=tokenizer())
        assert isinstance(judge, Detector)  # of one key
        read = [each for batch in judge.reader.batches(texts) for each in batch]
        found: dict[str, list[list[tuple[float, float]]]] = defaultdict(list)
        for key in keys:
            mark = method_of(key)
            scored = [mark.read(each.values) for each in read]
            scored = [each for each in scored if each.evidence.scores]
            for statistic in mark.statistics:
                tests = [each.test(statistic) for each in scored]
                found[statistic].append(
                    [
                        (null.p_value(test.own), each.evidence.z.get(statistic, np.nan))
                        for test, each in zip(tests, scored, strict=True)
                        if (null := test.null.computed)
                    ]
                )
        for statistic, values in found.items():
            p, z = np.moveaxis(np.array(values), -1, 0)  # (keys, texts) each
            shares = (p <= 0.05).mean(axis=1)
            report = {
                "method": name,
                "statistic": statistic,
                "keys": len(p),
                "texts": p.shape[1],
                **{f"at {level:g}": round(float((p <= level).mean()), 5) for level in LEVELS},
                "z": [round(float(z.mean()), 3), round(float(z.std()), 3)],
                "keys' spread": round(float(shares.std() / np.sqrt(0.05 * 0.95 / p.shape[1])), 2),
                "worst key at 5 %": round(float(shares.max()), 3),
            }
            print(json.dumps(report), flush=True)


def freedom(given: argparse.Namespace) -> None:
    encoder = load_encoder()
    backend = load_backend(given.backend, parallel=8, context=1024)
    config = GenerationConfig(max_tokens=given.tokens)
    prompts = [Prompt(OPENINGS[number % len(OPENINGS)]) for number in range(given.texts)]
    for name in given.methods:
        key = numbered_key(0, name, encoder)
        mark = method_of(key)
        if not isinstance(mark, (GreenMark, SIR)):
            continue
        natural = key.config.gamma if isinstance(key.config, GreenConfig) else 0.5
        if mark.most_valid <= natural:
            continue  # of such a mark it is not known what it could move
        made = Writer(backend, load_splitter(), encoder, mark, config)
        judge = detector(key, encoder=encoder, tokenizer=tokenizer())
        verdicts = judge.judge_many([each.text for each in made.write_many(prompts, seed=1)])
        scores = [unit for verdict in verdicts for unit in verdict.evidence.scores if unit.counted]
        share = float(np.mean([unit.valid for unit in scores]))
        report = {
            "method": name,
            "tokens": len(scores),
            "valid": round(share, 3),
            "of what could be moved": round((share - natural) / (mark.most_valid - natural), 2),
        }
        print(json.dumps(report), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    costing = commands.add_parser("cost")
    costing.add_argument("--backend", default="transformers:smollm2")
    costing.add_argument("--texts", type=int, nargs="+", default=[1, 64], help="at once")
    costing.add_argument("--tokens", type=int, default=100)
    costing.add_argument("--rounds", type=int, default=5)
    judging = commands.add_parser("null")
    judging.add_argument("--passages", type=Path, default=PASSAGES)
    judging.add_argument("--human", type=int, default=20, metavar="N", help="passages of a genre")
    judging.add_argument("--keys", type=int, default=200)
    moving = commands.add_parser("freedom")
    moving.add_argument("--backend", default="transformers:smollm2")
    moving.add_argument("--texts", type=int, default=32)
    moving.add_argument("--tokens", type=int, default=120)
    for command, does in ((costing, cost), (judging, null), (moving, freedom)):
        command.add_argument("--methods", nargs="+", default=list(METHODS))
        command.set_defaults(does=does)
    given = parser.parse_args()
    given.does(given)


if __name__ == "__main__":
    main()
