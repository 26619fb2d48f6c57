"""An attacker who may ask the detector: how many marks are left after how many questions.

    python benchmarks/oracle.py --texts 120 --inner synonyms marian --cache FOLDER

The texts are those of ``attacks.py`` in which the mark is found before. The attacker rewords
sentence after sentence, asks, and keeps what helps; he is told a p-value, or yes or no. What he did
is kept in the folder. Beside him stands a blind one, who takes one version of every sentence.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from attacks import INNER, Bench, append, arguments, read

from hammingmark.assemble import detector
from hammingmark.attacks.adaptive import OracleGuided, score_of
from hammingmark.pipeline.attack import AttackRunner
from hammingmark.pipeline.detect import Detector
from hammingmark.protocols import Attack
from hammingmark.records import Attacked

Row = dict[str, Any]
ANSWERS = ("p-value", "yes-or-no")
LEVEL = 0.01
STOPS = (1, 5, 10, 20, 40, 60, 80, 120, 160)


def main() -> None:
    parser = arguments(str(__doc__).partition("\n")[0])
    parser.add_argument("--inner", nargs="*", default=list(INNER), choices=list(INNER))
    parser.add_argument("--answers", nargs="*", default=list(ANSWERS), choices=ANSWERS)
    parser.add_argument("--versions", type=int, default=4, help="of a sentence at a time (4)")
    parser.add_argument("--queries", type=int, default=160, help="most questions a text (160)")
    parser.add_argument("--keeps", type=float, default=0.8, help="bound of a version (0.8)")
    options = parser.parse_args()
    bench = Bench(options)
    judge = detector(bench.key, encoder=bench.encoder, splitter=bench.splitter, level=LEVEL)
    verdicts = judge.judge_many(bench.texts)
    texts = [t for t, each in zip(bench.texts, verdicts, strict=True) if each.watermarked]
    print(f"{len(texts)} of {len(bench.texts)} marks are found at {LEVEL:.0%}", flush=True)
    stops = [stop for stop in STOPS if stop <= options.queries]
    columns = ["inner", "answers", *(f"after {stop}" for stop in stops)]
    columns += ["at the end", "similarity", "words"]
    print("| " + " | ".join(columns) + " |", flush=True)
    rows = []
    for inner in options.inner:
        rows.append(blind(bench, judge, texts, inner))
        show(rows[-1], stops)
        for answers in options.answers:
            rows.append(guided(bench, judge, texts, inner, answers, options))
            show(rows[-1], stops)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def blind(bench: Bench, judge: Detector, texts: list[str], inner: str) -> Row:
    """One version of every sentence, whatever it is."""
    made = run(bench, bench.inner(inner), texts)
    found = sum(bool(verdict.watermarked) for verdict in judge.judge_many(e.text for e in made))
    return {"inner": inner, "answers": "none", "left": {}, "found": found, **means(made)}


def guided(
    bench: Bench,
    judge: Detector,
    texts: list[str],
    inner: str,
    answers: str,
    options: argparse.Namespace,
) -> Row:
    """Questions and answers, from the folder or anew."""
    name = f"oracle-{inner}-{answers}-{options.versions}-{options.queries}-{options.keeps:g}"
    file = bench.cache / f"{name}.jsonl"
    known = read(file)
    if [row["original"] for row in known] != texts:
        file.unlink(missing_ok=True)
        attack = OracleGuided(
            inner=bench.inner(inner),
            splitter=bench.splitter,
            encoder=bench.encoder,
            judge=bench.judge,
            versions=options.versions,
            keeps=options.keeps,
            oracle=ORACLES[answers](judge),
            queries=options.queries,
            # Just below what the level asks for, or below yes.
            enough=np.nextafter(-np.log10(LEVEL), 0.0) if answers == "p-value" else 0.0,
            ties=answers == "yes-or-no",
        )
        made = run(bench, attack, texts)
        for text, each, path in zip(texts, made, attack.ledger.paths, strict=True):
            append(file, {"original": text, "path": path, **asdict(each)})
        known = read(file)
    verdicts = list(judge.judge_many(row["text"] for row in known))
    return {
        "inner": inner,
        "answers": answers,
        "left": {stop: sum(found_after(row["path"], stop, answers) for row in known)
                 for stop in STOPS if stop <= options.queries},
        "found": sum(bool(verdict.watermarked) for verdict in verdicts),
        **means([Attacked(**{k: row[k] for k in Attacked.__dataclass_fields__}) for row in known]),
    }  # fmt: skip


ORACLES: dict[str, Callable[[Detector], Callable[[str], float]]] = {
    "p-value": lambda judge: lambda text: score_of(judge.judge(text)),
    "yes-or-no": lambda judge: lambda text: float(bool(judge.judge(text).watermarked)),
}


def found_after(path: list[tuple[int, float]], questions: int, answers: str) -> bool:
    """Whether the mark was still found when the attacker had asked so often."""
    score = [score for asked, score in path if asked <= questions][-1]
    return score > 0.0 if answers == "yes-or-no" else score >= -np.log10(LEVEL)


def run(bench: Bench, attack: Attack, texts: list[str]) -> list[Attacked]:
    """All texts side by side."""
    runner = AttackRunner(attack, bench.splitter, bench.judge, batch=max(1, len(texts)))
    return list(runner.run(texts))


def means(made: list[Attacked]) -> Row:
    return {
        "texts": len(made),
        "similarity": float(np.mean([each.similarity for each in made])),
        "words": float(np.mean([each.words_changed for each in made])),
    }


def show(row: Row, stops: list[int]) -> None:
    """One line of the table; a blind attacker asks nothing and has one figure."""
    left = [str(row["left"].get(stop, "")) for stop in stops] if row["left"] else [""] * len(stops)
    cells = [row["inner"], row["answers"], *left, str(row["found"])]
    cells += [f"{row['similarity']:.3f}", f"{row['words']:.0%}"]
    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
