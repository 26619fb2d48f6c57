"""What marking costs on an engine: time, tokens and requests beside unmarked text, in one run.

    python benchmarks/engines.py --corpora FOLDER --backend smollm2
    python benchmarks/engines.py --corpora FOLDER --backend openai:MODEL@URL --together 1 8 32

For each number of texts at once, openings of C4 are continued and questions of ELI5 are answered as
chats, unmarked and under each rule in turn. Each round has other prompts and another key. A line of
output is one rule:

- ``time``: seconds per emitted token, over those of the unmarked texts of the same run;
- ``drawn``: tokens that the model wrote, over those of the texts;
- ``time_over_drawn``: the first over the second, 1 if the mark costs what is drawn for it;
- ``first``: the mean time to the first sentence of a text, over that of unmarked texts. Unmarked
  ones are asked for a single sentence, because they come whole;
- ``read``: tokens of prompts sent, and of those not in the engine's cache, for each emitted token;
- ``requests``: for each sentence.

An engine on the same machine shares its cores with the encoder.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import DEFAULT_METHOD
from hammingmark.assembly.marking import writer
from hammingmark.assembly.parts import load_splitter
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.evaluation.keys import UNMARKED, ExperimentKeys
from hammingmark.evaluation.prompts import EvaluationPrompt, openings, questions
from hammingmark.evaluation.stages import prompt_of
from hammingmark.generation.config import GenerationConfig
from hammingmark.models.catalogue import DEFAULT_ENCODER, DEFAULT_GENERATOR
from hammingmark.protocols import Backend
from hammingmark.records import Cost

WHOLE = "whole"  # complete candidates instead of stages


@dataclass
class Total:
    """What the texts of one rule took."""

    seconds: float = 0.0
    first_seconds: list[float] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    sentences: int = 0

    def sum(self, name: str) -> float:
        """The sum of a field of the costs."""
        return float(sum(getattr(cost, name) for cost in self.costs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpora", type=Path, required=True, help="folder of the corpora's files")
    parser.add_argument("--backend", default=DEFAULT_GENERATOR)
    parser.add_argument("--encoder", default=DEFAULT_ENCODER)
    parser.add_argument("--together", type=int, nargs="+", default=[1, 8], help="texts at once")
    parser.add_argument("--kinds", nargs="+", default=["continuations", "chats"])
    parser.add_argument("--presets", nargs="+", default=["default"], help=f"or {WHOLE}")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=200, help="most tokens of a text")
    parser.add_argument("--width", type=int, help="candidates of a text at once")
    options = parser.parse_args()
    keys = ExperimentKeys(load_encoder(options.encoder), name="engines")
    most = options.rounds * max(options.together) + 1
    prompts = prompts_of(options.corpora, most)
    for together in options.together:
        width = {} if options.width is None else {"width": options.width}
        backend = load_backend(options.backend, parallel=max(8, together), **width)
        for kind in options.kinds:
            measure(kind, prompts[kind], together, backend=backend, keys=keys, options=options)
        backend.close()


def prompts_of(corpora: Path, count: int) -> dict[str, list[EvaluationPrompt]]:
    documents = load_corpus("c4", location=corpora)[: 2 * count]
    return {
        "continuations": openings(documents, load_splitter(), characters=41)[:count],
        "chats": questions(load_corpus("eli5", location=corpora)[:count]),
    }


def measure(
    kind: str,
    prompts: Sequence[EvaluationPrompt],
    together: int,
    *,
    backend: Backend,
    keys: ExperimentKeys,
    options: argparse.Namespace,
) -> None:
    """Write the texts of all rules in turn, and print a line for each."""
    rules = [UNMARKED, *options.presets]
    totals = {rule: Total() for rule in rules}
    for rule in rules:  # loads and warms up what is loaded at first use
        write(prompts[-1:], rule, Total(), backend=backend, keys=keys, seed=0, tokens=30)
    for number in range(options.rounds):
        chosen = [prompts[(number * together + i) % len(prompts)] for i in range(together)]
        for rule in rules:
            write(
                chosen,
                rule,
                totals[rule],
                backend=backend,
                keys=keys,
                seed=number + 1,
                tokens=options.tokens,
            )
    plain = totals[UNMARKED]
    for rule, total in totals.items():
        emitted = total.sum("tokens")
        unmarked = plain.seconds / plain.sum("tokens")
        pace = total.seconds / emitted / unmarked
        drawn = total.sum("written_tokens") / emitted
        first = sum(total.first_seconds) / len(total.first_seconds)
        plain_first = sum(plain.first_seconds) / len(plain.first_seconds)
        read = total.sum("read_tokens")
        line = {
            "backend": options.backend,
            "kind": kind,
            "together": together,
            "rule": rule,
            "seconds": round(total.seconds, 1),
            "tokens_per_second": round(emitted / total.seconds, 1),
            "time": round(pace, 2),
            "drawn": round(drawn, 2),
            "time_over_drawn": round(pace / drawn, 2),
            "first": round(first / plain_first, 2),
            "read": [
                round(read / emitted, 1),
                round((read - total.sum("cached_tokens")) / emitted, 1),
            ],
            "requests": round(total.sum("requests") / max(1, total.sentences), 1),
            "fallbacks": int(total.sum("fallbacks")),
            "sentences": total.sentences,
        }
        print(json.dumps(line), flush=True)


def write(
    prompts: Sequence[EvaluationPrompt],
    rule: str,
    total: Total,
    *,
    backend: Backend,
    keys: ExperimentKeys,
    seed: int,
    tokens: int,
) -> None:
    """Write a text for each prompt, and add what it took."""
    config = GenerationConfig(max_tokens=tokens)
    point = UNMARKED if rule == UNMARKED else f"{DEFAULT_METHOD}/{rule}"
    if rule == WHOLE:
        config, point = replace(config, stage_tokens=0), DEFAULT_METHOD
    key = keys.key(point, seed)
    asked = [prompt_of(prompt.row()) for prompt in prompts]
    if rule == UNMARKED:  # a text of one sentence ends when its first sentence is there
        alone = writer(
            key, backend=backend, encoder=keys.encoder, config=replace(config, max_sentences=1)
        )
        began = time.perf_counter()
        total.first_seconds += [
            time.perf_counter() - began for _ in alone.stream(*asked, seed=seed)
        ]
    author = writer(key, backend=backend, encoder=keys.encoder, config=config)
    run = author.stream(*asked, seed=seed)
    first: dict[int, float] = {}
    began = time.perf_counter()
    for step in run:
        first.setdefault(step.document, time.perf_counter() - began)
    total.seconds += time.perf_counter() - began
    if rule != UNMARKED:
        total.first_seconds += first.values()
    generations = run.generations()
    total.costs += [generation.cost for generation in generations]
    total.sentences += sum(len(generation.sentences) for generation in generations)


if __name__ == "__main__":
    main()
