"""What marking costs: continuations beside chats, each preset beside unmarked text.

    python benchmarks/cost.py --out FOLDER --corpora FOLDER

Openings of several corpora are continued, in turn, and questions of ELI5 are answered as chats,
each at the temperature that the command uses by default. Figures of continuations are printed
together and by corpus. One text is written at a time. Every prompt is written under all presets and
unmarked in turn, so that times can be compared: what else the machine does, and what it has cached
of the prompt, meets all alike. Texts are stored in FOLDER and not written again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import DEFAULT_METHOD
from hammingmark.assembly.parts import load_splitter
from hammingmark.evaluation import stages
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.evaluation.keys import UNMARKED, ExperimentKeys
from hammingmark.evaluation.metrics import bootstrap
from hammingmark.evaluation.prompts import EvaluationPrompt, openings, questions
from hammingmark.evaluation.rows import Row
from hammingmark.evaluation.scores import cost_figures
from hammingmark.generation.config import GenerationConfig
from hammingmark.models.catalogue import DEFAULT_ENCODER, DEFAULT_GENERATOR
from hammingmark.records import Sampling

PRESETS = ("economical", "default", "robust")
KEYS = 4
FIGURES = ("drawn_over_emitted", "tokens_per_sentence", "fallback", "insisted", "ms_per_token")
ROUNDS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the texts")
    parser.add_argument("--corpora", type=Path, required=True, help="folder of the corpora's files")
    parser.add_argument(
        "--continued", nargs="+", default=["c4", "booksum"], help="corpora of continuations"
    )
    parser.add_argument("--backend", default=DEFAULT_GENERATOR)
    parser.add_argument("--encoder", default=DEFAULT_ENCODER)
    parser.add_argument("--texts", type=int, default=40, help="continuations, and chats")
    parser.add_argument("--tokens", type=int, default=120, help="most tokens of a text")
    parser.add_argument("--temperature", type=float, help="the same for both")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    backend = load_backend(options.backend)
    keys = ExperimentKeys(load_encoder(options.encoder), name="cost")
    config = GenerationConfig(max_tokens=options.tokens)
    if options.temperature is not None:
        config = config.with_sampling(Sampling(temperature=options.temperature))
    temperatures = {
        "continuations": config.text_sampling.temperature,
        "chats": config.chat_sampling.temperature,
    }
    points = (UNMARKED, *(f"{DEFAULT_METHOD}/{preset}" for preset in PRESETS))
    prompts = prompts_of(options.corpora, options.continued, count=options.texts)
    for point in points[:2]:  # loads the models
        stages.write(
            [EvaluationPrompt("first", "It rained all day.")],
            point=point,
            number=0,
            keys=keys,
            backend=backend,
            config=GenerationConfig(max_tokens=30),
        )
    rows: dict[tuple[str, str], list[Row]] = {}
    for number in range(options.texts):
        for kind, prompt in ((kind, listed[number]) for kind, listed in prompts.items()):
            first = number % len(points)
            for point in (*points[first:], *points[:first]):
                rows.setdefault((kind, point), []).extend(
                    stages.write(
                        [prompt],
                        point=point,
                        number=number % KEYS,
                        keys=keys,
                        backend=backend,
                        config=config,
                        path=options.out / f"{kind}-{point.replace('/', '-')}.jsonl",
                        batch=1,
                    )
                )
        print(number + 1, "prompts of each kind", flush=True)
    for kind, point in list(rows):
        for corpus in options.continued if kind == "continuations" else ():
            rows[f"continuations of {corpus}", point] = [
                row for row in rows[kind, point] if row["id"].startswith(f"{corpus} ")
            ]
    for (kind, point), texts in rows.items():
        figures = report(texts, rows[kind, UNMARKED])
        temperature = temperatures["chats" if kind == "chats" else "continuations"]
        setting = {"kind": kind, "temperature": temperature, "point": point}
        print(json.dumps(setting | figures), flush=True)


def prompts_of(
    corpora: Path, continued: Sequence[str], *, count: int
) -> dict[str, list[EvaluationPrompt]]:
    """As many continuations, of the corpora in turn, as chats."""
    splitter = load_splitter()
    texts = [
        [
            replace(opening, id=f"{name} {opening.id}")
            for opening in openings(
                load_corpus(name, location=corpora)[: 2 * count], splitter, characters=41
            )
        ]
        for name in continued
    ]
    chats = questions(load_corpus("eli5", location=corpora)[:count])
    return {
        "continuations": [opening for turn in zip(*texts, strict=False) for opening in turn],
        "chats": chats,
    }


def report(texts: Sequence[Row], plain: Sequence[Row]) -> dict[str, object]:
    """The figures of texts under one preset, beside unmarked ones for the same prompts."""
    numbers = np.arange(len(texts))

    def drawn_ratio(chosen: Iterable[float]) -> float:
        return cost_figures([texts[int(n)] for n in chosen])["drawn_over_emitted"]

    def time_ratio(chosen: Iterable[float]) -> float:
        marked, unmarked = ([rows[int(n)] for n in chosen] for rows in (texts, plain))
        return cost_figures(marked)["ms_per_token"] / cost_figures(unmarked)["ms_per_token"]

    figures = {name: round(value, 3) for name, value in cost_figures(texts).items()}
    row: dict[str, object] = {"texts": len(texts), **{name: figures[name] for name in FIGURES}}
    row["time_over_unmarked"] = round(time_ratio(numbers), 2)
    for name, ratio in (("drawn_over_emitted", drawn_ratio), ("time_over_unmarked", time_ratio)):
        interval = bootstrap(ratio, numbers, rng=np.random.default_rng(0), rounds=ROUNDS)
        row[f"{name}, 95 %"] = [round(bound, 2) for bound in interval]
    return row


if __name__ == "__main__":
    main()
