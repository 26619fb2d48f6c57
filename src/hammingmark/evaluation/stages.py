"""The stages of an evaluation: write, attack, detect. Each maps rows to rows.

A stage stores its rows in a file if it has one, and makes only those that are missing
(`rows.complete`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from hammingmark.assembly.detection import detector
from hammingmark.assembly.marking import writer
from hammingmark.attacks.runner import AttackRunner
from hammingmark.detection.detector import Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.evaluation.keys import UNMARKED, ExperimentKeys
from hammingmark.evaluation.progress import Progress, silent
from hammingmark.evaluation.prompts import EvaluationPrompt
from hammingmark.evaluation.rows import Row, complete
from hammingmark.generation.config import GenerationConfig
from hammingmark.keys.config import to_json
from hammingmark.protocols import Attack, Backend, Encoder, Splitter
from hammingmark.records import Generation, Message, Prompt, Verdict
from hammingmark.serialization import GENERATION_SCHEMA, cost_to_dict

DetectorOf = Callable[[str, int], Detector | DetectorGroup]
"""From a point and the number of a key to the detector of that key."""


def write(
    prompts: Sequence[EvaluationPrompt],
    *,
    point: str,
    number: int,
    keys: ExperimentKeys,
    backend: Backend,
    splitter: Splitter | None = None,
    config: GenerationConfig | None = None,
    path: Path | None = None,
    batch: int = 8,
    progress: Progress = silent,
) -> list[Row]:
    """Write a text for each prompt under one key of a point.

    Args:
        prompts: the prompts to continue or answer.
        point: the method and its parameters, or ``unmarked``.
        number: of the key; also the seed.
        keys: of the experiment.
        backend: writes the texts.
        splitter: by default the one that the key was made for.
        config: generation settings.
        path: the file of the rows, which several keys may share.
        batch: texts written at once; a killed run loses at most one batch.
        progress: counts texts.
    """
    config = config or GenerationConfig()
    key = keys.key(point, number)
    text_writer = writer(
        key, backend=backend, encoder=keys.encoder, splitter=splitter, config=config
    )
    run = {
        "stage": "write",
        "schema": GENERATION_SCHEMA,
        "keys": keys.name,
        "rule": to_json(key.config) if key else None,
        "backend": backend.name,
        "config": asdict(config),
    }

    def make(first: int, sources: Sequence[Row]) -> Iterator[Row]:
        start = time.perf_counter()
        generations = text_writer.write_many(
            [prompt_of(source) for source in sources], seed=number, first=first
        )
        seconds = (time.perf_counter() - start) / len(sources)
        for source, generation in zip(sources, generations, strict=True):
            yield {**source, **generation_row(generation), "seconds": seconds}

    sources = [{**prompt.row(), "point": point, "key": number} for prompt in prompts]
    return complete(
        sources,
        run=run,
        make=make,
        path=path,
        batch=batch,
        progress=progress,
        what=f"texts of {point}, key {number}",
    )


def generation_row(generation: Generation) -> Row:
    """The fields of a row for a generated text, named as in `generation_to_dict`."""
    return {
        "text": generation.text,
        "emitted_tokens": generation.cost.tokens,
        "sentences": len(generation.sentences),
        "stopped": generation.stopped,
        "error": generation.error,
        "cost": cost_to_dict(generation.cost),
    }


def attack(
    texts: Sequence[Row],
    *,
    name: str,
    load: Callable[[], Attack],
    splitter: Splitter,
    parameters: Mapping[str, object] | None = None,
    judge: Encoder | None = None,
    seed: int = 0,
    path: Path | None = None,
    batch: int = 32,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress = silent,
) -> list[Row]:
    """Attack each text, and measure how similar the outcome is.

    Args:
        texts: rows with ``text``.
        name: the attack's name in tables.
        load: loads the attack; called only if a row is missing.
        splitter: finds the sentences that are compared.
        parameters: those of the attack that change its outcome.
        judge: measures similarity; an encoder that the watermark does not use.
        seed: seeds the random generators, together with the number of the batch.
        path: the file of the rows.
        batch: texts attacked at once.
        clock: measures the seconds of a batch.
        progress: counts texts.
    """
    run = {
        "stage": "attack",
        "attack": name,
        "parameters": dict(parameters or {}),
        "splitter": splitter.name,
        "judge": judge.fingerprint if judge else None,
        "seed": seed,
        "batch": batch,
    }
    loaded: list[Attack] = []

    def make(first: int, sources: Sequence[Row]) -> Iterator[Row]:
        if not loaded:
            loaded.append(load())
        runner = AttackRunner(loaded[0], splitter, judge, seed=seed, batch=batch)
        start = clock()
        (outcomes,) = runner.batches((row["text"] for row in sources), first=first // batch)
        seconds = (clock() - start) / len(sources)
        for source, outcome in zip(sources, outcomes, strict=True):
            kept = {field: source[field] for field in source if field not in ("cost", "run")}
            yield {**kept, **asdict(outcome), "attack": name, "seconds": seconds}

    return complete(
        texts,
        run=run,
        make=make,
        path=path,
        batch=batch,
        shared=True,
        progress=progress,
        what=f"texts attacked by {name}",
    )


def detect(
    texts: Sequence[Row],
    *,
    detector_of: DetectorOf,
    parameters: Mapping[str, object],
    path: Path | None = None,
    batch: int = 64,
    progress: Progress = silent,
) -> list[Row]:
    """Compute the p-value of each text under the key of its row.

    Args:
        texts: rows with ``text``, ``point`` and ``key``.
        detector_of: makes the detector of a point and a key.
        parameters: those of detection that change a p-value.
        path: the file of the rows.
        batch: texts read at once.
        progress: counts texts.
    """

    def make(first: int, sources: Sequence[Row]) -> Iterator[Row]:
        for (point, key), group in groupby(sources, lambda row: (row["point"], row["key"])):
            rows = list(group)
            verdicts = detector_of(point, key).judge_many(row["text"] for row in rows)
            for row, verdict in zip(rows, verdicts, strict=True):
                fields = {name: row.get(name) for name in ("id", "point", "key", "attack", "part")}
                yield {**fields, **verdict_row(verdict)}

    return complete(
        texts,
        run={"stage": "detect", **parameters},
        make=make,
        path=path,
        batch=batch,
        progress=progress,
        what="texts judged",
    )


def verdict_row(verdict: Verdict) -> Row:
    """The fields of a row for a verdict; a text that is too short to judge has the p-value 1."""
    return {
        "p_value": 1.0 if verdict.p_value is None else verdict.p_value,
        "judged": verdict.p_value is not None,
        "units": len(verdict.evidence.scores),
    }


def detectors(keys: ExperimentKeys, **options: Any) -> DetectorOf:
    """Detectors by point and key number, each made once.

    Args:
        keys: of the experiment.
        options: further arguments of `assembly.detection.detector`.
    """
    cache: dict[tuple[str, int], Detector | DetectorGroup] = {}

    def detector_of(point: str, number: int) -> Detector | DetectorGroup:
        if (point, number) not in cache:
            key = keys.key(point, number)
            if key is None:
                raise ValueError(
                    f"{UNMARKED} texts have no key; judge them under the keys of a point"
                )
            cache[point, number] = detector(key, encoder=keys.encoder, **options)
        return cache[point, number]

    return detector_of


def negatives(
    texts: Mapping[str, Iterable[tuple[str, str]]], *, point: str, keys: Iterable[int]
) -> list[Row]:
    """Rows of unmarked texts for detection under every key of a point.

    Args:
        texts: by part (``calibration``, ``test``), the id of each text and the text.
        point: the point of the keys.
        keys: the numbers of the keys.
    """
    parts = {part: list(documents) for part, documents in texts.items()}
    return [
        {"id": name, "text": text, "point": point, "key": number, "part": part}
        for number in keys
        for part, documents in parts.items()
        for name, text in documents
    ]


def prompt_of(row: Row) -> Prompt:
    """The prompt of a row."""
    if row.get("chat"):
        return Prompt(messages=(Message("user", row["prompt"]),))
    return Prompt(row["prompt"])
