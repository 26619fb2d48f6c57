"""How often marked texts are found by the exact p-value, and what they cost.

    python benchmarks/evidence.py write --points bilinear/acceptance=0.38 --out FOLDER
    python benchmarks/evidence.py attack --attacks bergamot synonyms --out FOLDER
    python benchmarks/evidence.py judge --out FOLDER
    python benchmarks/evidence.py leak --out FOLDER

A point is a method and its parameters, a method and a preset, or ``unmarked``. Prompts are the
openings of held-out passages (``research/training/corpus.py``), dealt out over keys that everybody
can make again; ``--numbers`` writes the texts of some of these keys only. Texts and attacked texts
are kept in the folder, one file a point and attack; files of one name in folders below it are read
as one. Texts that the model ended before ``--least`` tokens are left out when the others are
judged.
``leak`` estimates each bilinear key from its texts, and says how the estimate correlates with the
true scores of sentences in unmarked texts that answer other prompts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from attacks import Remembering
from research.cryptanalysis.bilinear import score_correlation

from hammingmark.assembly.attacks import load_attack
from hammingmark.assembly.backends import load_backend, load_tokenizer
from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import method_of, new_key
from hammingmark.assembly.parts import load_splitter
from hammingmark.detection.reader import embed_texts
from hammingmark.evaluation.metrics import account, mean_repetition
from hammingmark.generation.generate import GenerationConfig, Writer
from hammingmark.keys.config import TokenConfig
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Encoder, FloatArray, Tokenizer
from hammingmark.records import Prompt, Verdict
from hammingmark.registry import find
from hammingmark.watermarks.bilinear import BilinearConfig
from research.cryptanalysis import bilinear_factors

PASSAGES = Path("research/training/data/passages.jsonl")

OPENING = 3


def numbered_key(number: int, point: str, encoder: Encoder) -> WatermarkKey:
    """A key for experiments: anybody can make it again."""
    method, _, rule = point.partition("/")
    given = dict(pair.split("=") for pair in rule.split(",") if "=" in pair)
    preset = "default" if given or not rule else rule
    tokens = tokenizer() if issubclass(find("methods", method).Config, TokenConfig) else None
    key = new_key(encoder, method=method, tokenizer=tokens, preset=preset, parameters=given)
    return replace(key, secret=Secret(hashlib.sha256(b"experiment %d" % number).digest()))


@lru_cache
def tokenizer() -> Tokenizer:
    """That of the model whose tokens are marked; read once, since a GGUF file takes seconds."""
    return load_tokenizer("transformers:smollm2")


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def files(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows by the file's name, from the folder and those below it."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        found.setdefault(path.name, []).extend(read(path))
    return dict(sorted(found.items()))


def save(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def openings(path: Path, genres: list[str], texts: int) -> list[tuple[str, str]]:
    """As many of each genre."""
    found: dict[str, list[tuple[str, str]]] = {genre: [] for genre in genres}
    for row in read(path):
        rows = found.get(row["genre"])
        if rows is not None and row["split"] == "heldout" and len(rows) < texts // len(genres):
            rows.append((row["id"], " ".join(row["sentences"][:OPENING])))
    return [each for rows in found.values() for each in rows]


def human_texts(path: Path, each: int) -> list[str]:
    """Of each genre that is held out, passages of up to ten sentences."""
    found: dict[str, list[str]] = {}
    for row in read(path):
        if row["split"] == "heldout":
            found.setdefault(row["genre"], []).append(" ".join(row["sentences"][:10]))
    return [text for texts in found.values() for text in texts[:each]]


def write(given: argparse.Namespace) -> None:
    backend = load_backend(given.backend, context=given.context)
    encoder = load_encoder(given.encoder)
    asked = openings(given.passages, given.genres, given.texts)
    config = GenerationConfig(max_tokens=given.tokens, stage_tokens=given.stage_tokens)
    for point in given.points:
        rows, made = [], []
        for number in given.numbers or range(given.keys):
            part = asked[number :: given.keys]
            free = point == "unmarked"
            mark = None if free else method_of(numbered_key(number, point, encoder))
            began = time.perf_counter()
            texts = Writer(backend, load_splitter(), encoder, mark, config).write_many(
                [Prompt(text) for _, text in part], seed=number
            )
            seconds = time.perf_counter() - began
            made += texts
            rows += [
                {"id": name, "key": number, "point": point, "prompt": prompt, "text": text.text,
                 "tokens": text.cost.tokens, "drawn_tokens": text.cost.drawn_tokens,
                 "spare_tokens": text.cost.spare_tokens, "sentences": len(text.sentences),
                 "fallbacks": text.cost.fallbacks, "candidates": text.cost.candidates,
                 "tried": text.cost.tried, "passed": text.cost.passed,
                 "seconds": seconds / len(part)}
                for (name, prompt), text in zip(part, texts, strict=True)
            ]  # fmt: skip
        save(given.out / f"{point.replace('/', '-')}.jsonl", rows)
        cost = {name: round(value, 3) for name, value in account(made).items()}
        print(json.dumps({"point": point, "texts": len(made), **cost}), flush=True)


def attack(given: argparse.Namespace) -> None:
    for name in given.attacks:
        parameters: dict[str, object] = {"share": 0.5} if name == "synonyms" else {}
        if name == "rewrite":
            parameters = {"backend": given.rewriter}
        made = load_attack(name, splitter=load_splitter(), parameters=parameters)
        for file, rows in files(given.out).items():
            target = given.out / f"{name}~{file}"
            if "~" in file or file.startswith("unmarked") or target.exists():
                continue
            texts = made.apply([row["text"] for row in rows], rng=np.random.default_rng(0))
            save(target, ({**row, "text": text} for row, text in zip(rows, texts, strict=True)))
            print(target, flush=True)


def judge(given: argparse.Namespace) -> None:
    encoder = Remembering(load_encoder(given.encoder))
    human = human_texts(given.passages, given.human) if given.human else []
    for file, every_row in files(given.out).items():
        rows = [row for row in every_row if row["tokens"] >= given.least and row["text"].strip()]
        report: dict[str, object] = {"file": file, "texts": len(rows)}
        if "~" not in file:
            report |= spent(every_row)
        if file.startswith("unmarked"):
            print(json.dumps(report), flush=True)
            continue
        for share in given.crops:
            found = judged(cropped(rows, share), encoder, human, given.levels, rounds=given.rounds)
            crop = {} if share == 1.0 else {"left": share}
            print(json.dumps({**report, **crop, **found}), flush=True)


def cropped(rows: list[dict[str, Any]], share: float) -> list[dict[str, Any]]:
    """A share of each text's sentences, from the middle."""
    if share == 1.0:
        return rows
    splitter = load_splitter()
    kept = []
    for row in rows:
        sentences = splitter.split(row["text"]).carrying
        count = max(1, round(share * len(sentences)))
        first = (len(sentences) - count) // 2
        kept.append({**row, "text": " ".join(sentences[first : first + count])})
    return kept


def leak(given: argparse.Namespace) -> None:
    encoder = load_encoder(given.encoder)
    found = files(given.out)
    natural = embedded(found["unmarked.jsonl"], encoder)
    for file, rows in found.items():
        if "~" in file or not file.startswith("bilinear"):
            continue
        texts = embedded(rows, encoder)
        for count in given.counts:
            report: dict[str, object] = {"file": file, "texts": count, "keys": len(texts)}
            told, transitions = [], []
            for number, own in texts.items():
                key = numbered_key(number, rows[0]["point"], encoder)
                rule = key.config
                assert isinstance(rule, BilinearConfig)
                rng = np.random.default_rng([number, count])
                guess = bilinear_factors.learn(
                    own[:count], rank=rule.rank, threshold=rule.threshold, rng=rng
                )
                others = [text for other in natural if other != number for text in natural[other]]
                true = bilinear_factors.FormFactors.of(key)
                told.append(score_correlation(guess, true, others, rng=rng, firsts=1000))
                transitions.append(sum(len(text) - 1 for text in own[:count]))
            report["transitions"] = round(float(np.mean(transitions)), 1)
            report["correlation"] = [round(each, 3) for each, _ in told]
            report["mean"] = round(float(np.mean([each for each, _ in told])), 3)
            report["mean of first"] = round(float(np.mean([each for _, each in told])), 3)
            print(json.dumps(report), flush=True)


def embedded(rows: list[dict[str, Any]], encoder: Encoder) -> dict[int, list[FloatArray]]:
    """The embeddings of each key's texts, (n, d), of those with four sentences or more."""
    splitter = load_splitter()
    cut = [(row["key"], splitter.split(row["text"]).carrying) for row in rows]
    enough = [(number, sentences) for number, sentences in cut if len(sentences) >= 4]
    values = embed_texts([sentences for _, sentences in enough], encoder.encode)
    found: dict[int, list[FloatArray]] = {}
    for (number, _), value in zip(enough, values, strict=True):
        found.setdefault(number, []).append(value)
    return found


def spent(rows: list[dict[str, Any]]) -> dict[str, float]:
    """What all texts of a file took, also those that the model ended early."""
    sums = {
        name: sum(row.get(name, 0) for row in rows)
        for name in ("tokens", "drawn_tokens", "spare_tokens", "sentences", "fallbacks", "seconds")
    }
    return {
        "written": len(rows),
        "drawn over emitted": round(sums["drawn_tokens"] / max(1, sums["tokens"]), 3),
        "spare over emitted": round(sums["spare_tokens"] / max(1, sums["tokens"]), 3),
        "tokens per sentence": round(sums["tokens"] / max(1, sums["sentences"]), 1),
        "fallback": round(sums["fallbacks"] / max(1, sums["sentences"]), 4),
        "ms per emitted token": round(1e3 * sums["seconds"] / max(1, sums["tokens"]), 2),
        "rep-4": round(mean_repetition([row["text"] for row in rows]), 4),
    }


def judged(
    rows: list[dict[str, Any]],
    encoder: Encoder,
    human: list[str],
    levels: list[float],
    *,
    rounds: int,
    **parts: Any,
) -> dict[str, Any]:
    """The shares that are found, with intervals over keys and texts.

    With human texts also by a threshold for each key that 1 % of them reach.

    Args:
        rows: of one point.
        encoder: that the texts were marked with.
        human: texts that are not marked.
        levels: of the exact p-value.
        rounds: of the bootstrap.
        parts: further arguments of `detector`.
    """
    found: dict[int, list[float]] = {}
    beyond: dict[int, list[float]] = {}
    units = []
    for number in sorted({row["key"] for row in rows}):
        texts = [row["text"] for row in rows if row["key"] == number]
        key = numbered_key(number, rows[0]["point"], encoder)
        judge = detector(key, encoder=encoder, **parts)
        verdicts = list(judge.judge_many(texts))
        units += [len(verdict.evidence.scores) for verdict in verdicts]
        found[number] = p_values(verdicts)
        if human:
            least = np.quantile(p_values(judge.judge_many(human)), 0.01)
            beyond[number] = [p / least * 0.01 for p in found[number]]
    every = np.concatenate(list(found.values()))
    report: dict[str, Any] = {
        "keys": len(found),
        "units": round(float(np.mean(units)), 2),
        "bits": round(float(-np.log2(every).mean()), 2),
    }
    for level in levels:
        low, high = interval(found, level, rounds=rounds)
        share = round(float((every <= level).mean()), 3)
        report[f"found at {level:g}"] = [share, round(low, 3), round(high, 3)]
    if beyond:
        low, high = interval(beyond, 0.01, rounds=rounds)
        share = round(float((np.concatenate(list(beyond.values())) <= 0.01).mean()), 3)
        report["calibrated"] = [share, round(low, 3), round(high, 3)]
    return report


def p_values(verdicts: Iterable[Verdict]) -> list[float]:
    return [1.0 if verdict.p_value is None else verdict.p_value for verdict in verdicts]


def interval(found: dict[int, list[float]], level: float, *, rounds: int) -> tuple[float, float]:
    """95 %, over keys and over the texts of each."""
    rng = np.random.default_rng(0)
    rows = [np.array(values) <= level for values in found.values()]
    shares = []
    for _ in range(rounds):
        some = [rows[i] for i in rng.integers(len(rows), size=len(rows))]
        drawn = [row[rng.integers(len(row), size=len(row))] for row in some]
        shares.append(float(np.concatenate(drawn).mean()))
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    writing = commands.add_parser("write")
    writing.add_argument("--points", nargs="+", required=True)
    writing.add_argument("--backend", default="smollm2")
    writing.add_argument("--genres", nargs="*", default=["c4", "cnn"])
    writing.add_argument("--texts", type=int, default=240)
    writing.add_argument("--keys", type=int, default=4)
    writing.add_argument("--tokens", type=int, default=200)
    writing.add_argument("--context", type=int, default=1024)
    writing.add_argument("--numbers", type=int, nargs="*", help="of keys; by default all")
    writing.add_argument("--stage-tokens", type=int, default=GenerationConfig().stage_tokens)
    attacking = commands.add_parser("attack")
    attacking.add_argument("--attacks", nargs="+", default=["bergamot", "synonyms"])
    attacking.add_argument("--rewriter", default="qwen-coder", help="the model that rewrites")
    judging = commands.add_parser("judge")
    judging.add_argument("--least", type=int, default=150)
    judging.add_argument(
        "--human", type=int, default=0, metavar="N",
        help="calibrate on N held-out passages of each genre as well",
    )  # fmt: skip
    judging.add_argument("--rounds", type=int, default=1000)
    judging.add_argument("--levels", type=float, nargs="+", default=[0.01, 0.001])
    judging.add_argument(
        "--crops", type=float, nargs="+", default=[1.0], metavar="SHARE",
        help="of the sentences that are left of each text",
    )  # fmt: skip
    leaking = commands.add_parser("leak")
    leaking.add_argument("--counts", type=int, nargs="+", default=[10, 20, 40, 60])
    every = ((writing, write), (attacking, attack), (judging, judge), (leaking, leak))
    for command, does in every:
        command.add_argument("--encoder", default="minilm-mark")
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--passages", type=Path, default=PASSAGES)
        command.set_defaults(does=does)
    given = parser.parse_args()
    given.does(given)


if __name__ == "__main__":
    main()
