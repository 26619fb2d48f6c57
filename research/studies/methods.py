"""The methods of the paper side by side: their cost and their evidence.

    python -m research.studies.methods write --out FOLDER
    python -m research.studies.methods attack --out FOLDER
    python -m research.training.quality FOLDER/*.jsonl --model FILE.gguf > QUALITY
    python -m research.studies.methods table --out FOLDER --quality QUALITY

Methods that mark tokens (``kgw``, ``morphmark``, ...) need ``--backend transformers:smollm2``.
All methods have the same prompts, model, decoding settings, encoder and loop; a method has the
parameters of its paper, unless these fit only the authors' encoder: SimMark's interval
and the continuous threshold are chosen for the natural acceptance that the paper reports. Under a
key the p-value is exact; every method is also judged by thresholds that 1 % of human passages reach
(except PMark online, whose detector draws 64 continuations of every sentence).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.encoders.wrappers import CachedEncoder
from hammingmark.evaluation.keys import UNMARKED, ExperimentKeys
from hammingmark.evaluation.rows import Row
from hammingmark.evaluation.scores import cost_figures
from hammingmark.evaluation.tables import Column, tabulate
from research.studies import evidence
from research.studies.common import file_of, human_texts, judge_rows, read_folder

POINTS = (
    UNMARKED,
    "hamming/paper",
    "bilinear",
    "semstamp",
    "semstamp/relaxed",
    "k-semstamp",
    "k-semstamp/relaxed",
    "simmark/acceptance=0.34",
    "simmark/acceptance=0.9",
    "pmark-offline",
    "pmark-online",
    "random-code",
    "continuous/acceptance=0.58",
)

TOKENS = {"kgw": "1.00", "morphmark": "0.99", "synthid": "1.00", "sir": "0.98"}
"""Methods that mark tokens, with the paper's share detected as written, calibrated at 1 %."""

PAPER: dict[str, tuple[str, str, str]] = {
    "hamming/paper": ("2.2", "0.58", "1.00"),
    "semstamp": ("99.3", "0.04", ""),
    "semstamp/relaxed": ("2.9", "", "0.06"),
    "k-semstamp": ("13.3", "0.13", ""),
    "k-semstamp/relaxed": ("3.1", "", "0.09"),
    "simmark/acceptance=0.34": ("8.1", "0.34", ""),
    "simmark/acceptance=0.9": ("1.6", "", "0.07"),
    "pmark-offline": ("64.0", "", ""),
    "random-code": ("14.7", "0.15", ""),
    "continuous/acceptance=0.58": ("", "0.58", "0.68"),
}
"""The paper's candidates per sentence, natural acceptance, and share detected as written
(calibrated at 1 %), where it reports them for these settings."""

PAPER |= {point: ("", "", share) for point, share in TOKENS.items()}

SAMPLED = "pmark-online"
ATTACKED = {"as written": "", "after Bergamot": "bergamot~", "rewritten by Qwen": "rewrite~"}

COLUMNS = (
    Column("method", "point", required=True),
    Column("candidates per sentence", "cost.candidates", ".1f"),
    Column("tokens per sentence", "cost.drawn_tokens", ".0f"),
    Column("acceptance", "cost.acceptance", ".2f"),
    Column("fallback", "cost.fallback", ".1%"),
    *(
        Column(f"{attack}, {name}", f"{attack}.{name} at 0.01")
        for attack in ATTACKED
        for name in ("found", "calibrated", "achieved")
    ),
    Column("AUROC", "as written.auroc"),
    Column("perplexity", "quality.perplexity", ".1f"),
    Column("the paper's: candidates, acceptance, found", "paper"),
)


def table(options: argparse.Namespace) -> None:
    """Print the table in Markdown, and write it as JSON if there is a file."""
    keys = ExperimentKeys(CachedEncoder(load_encoder(options.encoder)))
    human = human_texts(options.passages, options.human)
    printed = options.quality.read_text("utf-8").splitlines() if options.quality else []
    quality = dict(map(read_quality, printed))
    files = read_folder(options.out)
    results = []
    for point in options.points:
        if file_of(point) not in files:
            continue
        parts: dict[str, Any] = {}
        if point.startswith(SAMPLED):
            parts["backend"] = load_backend(options.backend, context=options.context)
        result: dict[str, Any] = {"point": f"`{point}`", "cost": cost(point, files[file_of(point)])}
        for attack, prefix in ATTACKED.items():
            texts = [row for row in files.get(prefix + file_of(point), []) if row["text"].strip()]
            if texts and point != UNMARKED:
                result[attack] = judge_rows(
                    texts,
                    keys,
                    [] if parts else human,
                    levels=[0.01],
                    folder=options.out,
                    **parts,
                )
        result["quality"] = quality.get(Path(file_of(point)).stem)
        result["paper"] = (
            ", ".join(figure or "-" for figure in PAPER[point]) if point in PAPER else None
        )
        results.append(result)
    result_table = tabulate(results, COLUMNS)
    print(result_table.markdown(), end="")
    if options.json:
        options.json.write_text(result_table.json(), encoding="utf-8")


def cost(point: str, rows: list[Row]) -> dict[str, float]:
    """The cost of a sentence: the figures that apply to the method."""
    figures = cost_figures(rows)
    if point == UNMARKED or point.partition("/")[0] in TOKENS:  # generated in one go
        return {"drawn_tokens": figures["drawn_tokens"]}
    if point.startswith("pmark"):  # every candidate of the pool is acceptable
        del figures["acceptance"]
    return figures


def read_quality(printed: str) -> tuple[str, dict[str, Any]]:
    """Parse a line of `research.training.quality`: a file's stem and its figures."""
    name, _, report = printed.partition(" {")
    return name, json.loads("{" + report)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    writing = commands.add_parser("write")
    evidence.add_writing(writing, texts=64)
    attacking = commands.add_parser("attack")
    evidence.add_attacking(attacking, "bergamot")
    tabling = commands.add_parser("table")
    tabling.add_argument("--human", type=int, default=120, metavar="N", help="passages of a genre")
    tabling.add_argument("--quality", type=Path, help="the output of research.training.quality")
    tabling.add_argument("--json", type=Path, help="also write the table to this file")
    tabling.add_argument("--backend", default="smollm2")
    tabling.add_argument("--context", type=int, default=1024)
    every = ((writing, evidence.write), (attacking, evidence.attack), (tabling, table))
    for command, run in every:
        command.add_argument("--points", nargs="+", default=list(POINTS))
        evidence.add_common(command)
        command.set_defaults(run=run)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
