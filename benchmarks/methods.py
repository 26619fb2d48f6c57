"""The methods of the paper side by side: what they cost and what they prove.

    python benchmarks/methods.py write --out FOLDER
    python benchmarks/methods.py attack --out FOLDER
    python -m research.training.quality FOLDER/*.jsonl --model FILE.gguf > QUALITY
    python benchmarks/methods.py table --out FOLDER --quality QUALITY

Methods that mark tokens (``kgw``, ``morphmark``, ...) need ``--backend transformers:smollm2``.
All write from the same prompts with the same model, decoding settings, encoder and loop; a method
has its paper's parameters, except where these fit the authors' encoder alone: SimMark's interval
and the continuous threshold are chosen for the natural acceptance that the paper reports. Under a
key the p-value is exact; every method is also judged by thresholds that 1 % of human passages reach
(of PMark online, whose detector draws 64 continuations of every sentence, by the exact one alone).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import evidence
from attacks import Remembering

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.encoders import load_encoder
from hammingmark.generation.config import GenerationConfig

PASSAGES = Path("research/training/data/passages.jsonl")

POINTS = (
    "unmarked",
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
"""Those that mark tokens, and what the paper finds of them as written, at 1 % by calibration."""

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
"""What the paper says: candidates per sentence, natural acceptance, and the share found as written
at 1 % by calibration, where it says so for these settings."""

PAPER |= {point: ("", "", found) for point, found in TOKENS.items()}

SAMPLED = "pmark-online"
ATTACKED = {"as written": "", "bergamot": "bergamot~", "rewrite": "rewrite~"}


def table(given: argparse.Namespace) -> None:
    """The table, in Markdown, and each row as JSON where a file is named."""
    encoder = Remembering(load_encoder(given.encoder))
    human = evidence.human_texts(given.passages, given.human)
    quality = (
        dict(map(read_quality, given.quality.read_text("utf-8").splitlines()))
        if given.quality
        else {}
    )
    found = evidence.files(given.out)
    print(
        "| method | candidates per sentence | tokens per sentence | acceptance | fallback "
        "| found at 1 %, exact | calibrated | after Bergamot, exact | calibrated "
        "| rewritten by Qwen, exact | calibrated "
        "| perplexity | the paper's: candidates, acceptance, found |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for point in given.points:
        name = point.replace("/", "-") + ".jsonl"
        if name not in found:
            continue
        rows = found[name]
        row: dict[str, Any] = {"point": point, **cost(rows), **evidence.spent(rows)}
        parts: dict[str, Any] = {}
        if point.startswith(SAMPLED):
            parts["backend"] = load_backend(given.backend, context=given.context)
        for kind, prefix in ATTACKED.items():
            file = prefix + name
            if point != "unmarked" and file in found:
                texts = [each for each in found[file] if each["text"].strip()]
                compared = [] if parts else human
                row[kind] = evidence.judged(texts, encoder, compared, [0.01], rounds=1000, **parts)
        row["quality"] = quality.get(Path(name).stem)
        print(line(point, row), flush=True)
        if given.json:
            with given.json.open("a", encoding="utf-8") as file_:
                file_.write(json.dumps(row) + "\n")


def cost(rows: list[dict[str, Any]]) -> dict[str, float]:
    """What a sentence took."""
    sentences = max(1, sum(row["sentences"] for row in rows))
    tried = sum(row["tried"] for row in rows)
    return {
        "candidates": sum(row["candidates"] for row in rows) / sentences,
        "drawn": sum(row["drawn_tokens"] for row in rows) / sentences,
        "acceptance": sum(row["passed"] for row in rows) / max(1, tried),
    }


def line(point: str, row: dict[str, Any]) -> str:
    def share(kind: str, name: str) -> str:
        found = row.get(kind, {}).get(name)
        return f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})" if found else ""

    quality = row["quality"]
    whole = point == "unmarked" or point.partition("/")[0] in TOKENS  # drawn in one go
    cells = [
        f"`{point}`",
        "" if whole else f"{row['candidates']:.1f}",
        f"{row['drawn']:.0f}",
        "" if whole or point.startswith("pmark") else f"{row['acceptance']:.2f}",
        "" if whole else f"{row['fallback']:.1%}",
        *(share(kind, name) for kind in ATTACKED for name in ("found at 0.01", "calibrated")),
        f"{quality['perplexity']:.1f}" if quality else "",
        ", ".join(each or "-" for each in PAPER.get(point, ())),
    ]
    return "| " + " | ".join(cells) + " |"


def read_quality(printed: str) -> tuple[str, dict[str, Any]]:
    name, _, report = printed.partition(" {")
    return name, json.loads("{" + report)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    writing = commands.add_parser("write")
    writing.add_argument("--genres", nargs="*", default=["c4", "cnn"])
    writing.add_argument("--texts", type=int, default=64)
    writing.add_argument("--keys", type=int, default=4)
    writing.add_argument("--numbers", type=int, nargs="*", help="of keys; by default all")
    writing.add_argument("--tokens", type=int, default=200)
    writing.add_argument("--stage-tokens", type=int, default=GenerationConfig().stage_tokens)
    attacking = commands.add_parser("attack")
    attacking.add_argument("--attacks", nargs="+", default=["bergamot"])
    attacking.add_argument("--rewriter", default="qwen-coder", help="the model that rewrites")
    tabling = commands.add_parser("table")
    tabling.add_argument("--human", type=int, default=120, metavar="N", help="passages of a genre")
    tabling.add_argument("--quality", type=Path, help="what training.quality printed")
    tabling.add_argument("--json", type=Path, help="rows are added to this file")
    every = ((writing, evidence.write), (attacking, evidence.attack), (tabling, table))
    for command, does in every:
        command.add_argument("--points", nargs="+", default=list(POINTS))
        command.add_argument("--backend", default="smollm2")
        command.add_argument("--context", type=int, default=1024)
        command.add_argument("--encoder", default="minilm-mark")
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--passages", type=Path, default=PASSAGES)
        command.set_defaults(does=does)
    given = parser.parse_args()
    given.does(given)


if __name__ == "__main__":
    main()
