"""Common to the studies: prompts and human texts from held-out passages, files of rows."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from hammingmark.assembly.parts import load_attack, load_splitter
from hammingmark.evaluation import stages
from hammingmark.evaluation.keys import ExperimentKeys
from hammingmark.evaluation.metrics import Interval
from hammingmark.evaluation.progress import shown
from hammingmark.evaluation.prompts import EvaluationPrompt
from hammingmark.evaluation.rows import Row, read_run
from hammingmark.evaluation.scores import calibrated_scores, exact_scores
from hammingmark.protocols import Attack
from research.training.files import DATA, first_passages

PASSAGES = DATA / "passages.jsonl"
OPENING = 3
"""Sentences of a passage that make a prompt."""
JUDGED = "judged"
"""The folder of p-values beside the texts."""


def passage_prompts(path: Path, genres: list[str], texts: int) -> list[EvaluationPrompt]:
    """The openings of held-out passages, equally many of each genre."""
    most = texts // len(genres)
    passages = first_passages(path, split="heldout", most=most, genres=genres)
    passages.sort(key=lambda passage: genres.index(passage["genre"]))
    prompts = []
    for passage in passages:
        opening, rest = passage["sentences"][:OPENING], passage["sentences"][OPENING:]
        prompts.append(EvaluationPrompt(passage["id"], " ".join(opening), " ".join(rest)))
    return prompts


def human_texts(path: Path, most: int) -> list[tuple[str, str]]:
    """Id and text of held-out passages of up to ten sentences, at most ``most`` of each genre."""
    texts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for passage in first_passages(path, split="heldout", most=most):
        texts[passage["genre"]].append((passage["id"], " ".join(passage["sentences"][:10])))
    return [text for genre in texts.values() for text in genre]


def halves(texts: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Every other text for calibration, and the rest to measure the rate achieved."""
    return {"calibration": texts[::2], "test": texts[1::2]}


def read_folder(folder: Path) -> dict[str, list[Row]]:
    """All rows by file name, from the folder and its subfolders, except p-values."""
    files: defaultdict[str, list[Row]] = defaultdict(list)
    for path in sorted(folder.rglob("*.jsonl")):
        if JUDGED not in path.relative_to(folder).parts:
            files[path.name] += read_run(path)
    return dict(sorted(files.items()))


def file_of(point: str) -> str:
    """The name of the file with a point's texts."""
    return f"{point.replace('/', '-')}.jsonl"


def attack_files(folder: Path, name: str, *, batch: int, parameters: dict[str, Any]) -> None:
    """Attack the marked texts of every file in a folder, and store the outcomes beside them."""
    splitter = load_splitter()

    @cache
    def load() -> Attack:
        return load_attack(name, splitter=splitter, parameters=parameters)

    for file, rows in read_folder(folder).items():
        if "~" not in file and not file.startswith("unmarked"):
            target = folder / f"{name}~{file}"
            stages.attack(
                rows,
                name=name,
                load=load,
                splitter=splitter,
                parameters=parameters,
                path=target,
                batch=batch,
                progress=shown,
            )
            print(target, flush=True)


def judge_rows(
    rows: list[Row],
    keys: ExperimentKeys,
    human: list[tuple[str, str]],
    *,
    levels: list[float],
    rounds: int = 1000,
    folder: Path | None = None,
    **parts: Any,
) -> dict[str, Any]:
    """The share of texts of one point detected; with human texts also by thresholds for each key.

    Args:
        rows: of one point.
        keys: of the experiment.
        human: unmarked texts, half of which calibrate the thresholds.
        levels: of the exact p-value; thresholds are for the first.
        rounds: of the bootstrap.
        folder: stores p-values.
        parts: further arguments of the detector.
    """
    point = rows[0]["point"]
    name = file_of(point)
    numbers = sorted({row["key"] for row in rows})
    parameters = {"encoder": keys.encoder.fingerprint, **_named(parts)}
    detector_of = stages.detectors(keys, **parts)
    texts = [{field: row.get(field) for field in _OWN} for row in rows]

    def judge(texts: list[Row], prefix: str) -> list[Row]:
        return stages.detect(
            texts,
            detector_of=detector_of,
            parameters=parameters,
            path=folder / JUDGED / f"{prefix}{name}" if folder else None,
            progress=shown,
        )

    judged = judge(sorted(texts, key=lambda row: int(row["key"])), "")
    figures = exact_scores(judged, levels=levels, rounds=rounds)
    if human:
        unmarked = stages.negatives(halves(human), point=point, keys=numbers)
        compared = judge(unmarked, "human~")
        figures |= calibrated_scores(judged, compared, levels=levels[:1], rounds=rounds)
    return figures


def _named(parts: dict[str, Any]) -> dict[str, str]:
    """The names of a detector's parts."""
    return {name: str(getattr(part, "name", part)) for name, part in parts.items()}


_OWN = ("id", "point", "key", "attack", "text")


def rounded(figures: dict[str, Any], places: int = 3) -> dict[str, Any]:
    """Figures as they are printed: intervals as lists."""
    return {name: _rounded(value, places) for name, value in figures.items()}


def _rounded(value: Any, places: int) -> Any:
    if isinstance(value, Interval):
        return [round(bound, places) for bound in (value.value, value.low, value.high)]
    return round(value, places) if isinstance(value, float) else value
