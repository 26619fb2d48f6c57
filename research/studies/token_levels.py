"""Token-level methods: whether their level holds, and the share of tokens that they change.

    python -m research.studies.token_levels null
    python -m research.studies.token_levels freedom --texts 32

``null`` judges human passages (``research/training/corpus.py``) under many keys, by every
statistic: the share of p-values at each level, the mean and the standard deviation of z, and how
much the shares of keys differ, relative to sampling noise.

``freedom`` writes marked texts and counts their valid tokens: their share, and the ratio of their
excess to the largest possible one, with equally likely tokens (`watermarks._shared.token_scores`).
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import method_of
from hammingmark.assembly.parts import load_splitter
from hammingmark.detection.detector import Detector
from hammingmark.evaluation.keys import ExperimentKeys
from hammingmark.generation.generate import GenerationConfig, Writer
from hammingmark.records import Prompt
from hammingmark.watermarks._shared.green_lists import GreenConfig, GreenMark
from hammingmark.watermarks.sir import SIR
from research.studies.common import PASSAGES, human_texts

LEVELS = (0.05, 0.01, 0.001)
METHODS = ("kgw", "kgw/minhash", "morphmark", "synthid", "synthid/hashing=table", "sir")
OPENINGS = (
    "The old lighthouse on the cliff had been empty for years.",
    "Researchers who study the deep sea have found something that nobody expected.",
    "In the spring the council decided to close the bridge to cars.",
    "My grandmother kept her recipes in a tin box under the bed.",
)


def null(options: argparse.Namespace) -> None:
    """Measure the shares of p-values of human texts."""
    encoder = load_encoder()
    texts = [text for _, text in human_texts(options.passages, options.human)]
    experiment = ExperimentKeys(encoder)
    for name in options.methods:
        keys = [key for n in range(options.keys) if (key := experiment.key(name, n)) is not None]
        judge = detector(keys[0], encoder=encoder)
        assert isinstance(judge, Detector)  # of one key
        inputs = [text for batch in judge.reader.batches(texts) for text in batch]
        results: dict[str, list[list[tuple[float, float]]]] = defaultdict(list)
        for key in keys:
            mark = method_of(key)
            readings = [mark.read(text.values) for text in inputs]
            readings = [reading for reading in readings if reading.evidence.scores]
            for statistic in mark.statistics:
                tests = [reading.test(statistic) for reading in readings]
                results[statistic].append(
                    [
                        (null.p_value(test.increments), reading.evidence.z.get(statistic, np.nan))
                        for test, reading in zip(tests, readings, strict=True)
                        if (null := test.null.computed)
                    ]
                )
        for statistic, values in results.items():
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


def freedom(options: argparse.Namespace) -> None:
    """Measure the shares of valid tokens in marked texts."""
    encoder = load_encoder()
    backend = load_backend(options.backend, parallel=8, context=1024)
    keys = ExperimentKeys(encoder)
    config = GenerationConfig(max_tokens=options.tokens)
    prompts = [Prompt(OPENINGS[number % len(OPENINGS)]) for number in range(options.texts)]
    for name in options.methods:
        key = keys.key(name, 0)
        assert key is not None
        mark = method_of(key)
        if not isinstance(mark, (GreenMark, SIR)):
            continue
        natural = key.config.gamma if isinstance(key.config, GreenConfig) else 0.5
        if mark.most_valid <= natural:
            continue  # its largest possible share is not known
        text_writer = Writer(backend, load_splitter(), encoder, mark, config)
        judge = detector(key, encoder=encoder)
        verdicts = judge.judge_many([text.text for text in text_writer.write_many(prompts, seed=1)])
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
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    judging = commands.add_parser("null")
    judging.add_argument("--passages", type=Path, default=PASSAGES)
    judging.add_argument("--human", type=int, default=20, metavar="N", help="passages of a genre")
    judging.add_argument("--keys", type=int, default=200)
    moving = commands.add_parser("freedom")
    moving.add_argument("--backend", default="transformers:smollm2")
    moving.add_argument("--texts", type=int, default=32)
    moving.add_argument("--tokens", type=int, default=120)
    for command, run in ((judging, null), (moving, freedom)):
        command.add_argument("--methods", nargs="+", default=list(METHODS))
        command.set_defaults(run=run)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
