"""Write, attack, detect and tabulate on fakes; a killed run resumes with the same table."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.unit.evaluation import small_experiment

from hammingmark.attacks.spelling import Case
from hammingmark.evaluation.keys import UNMARKED, ExperimentKeys
from hammingmark.evaluation.prompts import EvaluationPrompt
from hammingmark.evaluation.rows import read_run
from hammingmark.evaluation.stages import attack, detect, detectors, negatives, write
from hammingmark.generation.config import GenerationConfig
from hammingmark.testing import FakeBackend, FakeEncoder, FakeSplitter

PROMPTS = [EvaluationPrompt(str(n), f"The boat number {n} went out.") for n in range(5)]
CONFIG = GenerationConfig(max_tokens=40, budget=4)


def experiment(folder: Path, *lives: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.unit.evaluation.small_experiment"]
    return subprocess.run(
        [*command, str(folder), *lives], capture_output=True, text=True, check=False
    )


def test_a_killed_run_resumes_and_gives_the_same_table(tmp_path: Path) -> None:
    whole = small_experiment.run(tmp_path / "whole", FakeBackend()).markdown()
    assert whole.count("\n") == 2 + 2 * 3
    folder = tmp_path / "killed"
    killed = 0
    while (done := experiment(folder, "300")).returncode == -signal.SIGKILL:
        killed += 1
        assert killed < 20
    assert done.returncode == 0, done.stderr
    assert killed >= 2
    assert done.stdout == whole
    idle = FakeBackend()
    assert small_experiment.run(folder, idle).markdown() == whole
    assert idle.drawn == []
    rows = read_run(folder / "written" / "bilinear.jsonl")
    assert len({row["fingerprint"] for row in rows}) == len(rows) == 8


def test_texts_are_found_under_their_key_and_no_other(tmp_path: Path) -> None:
    keys = ExperimentKeys(FakeEncoder())
    common = {"keys": keys, "backend": FakeBackend(), "splitter": FakeSplitter()}
    config = GenerationConfig(max_tokens=150)
    rows = write(PROMPTS, point="bilinear", number=1, config=config, **common)
    assert [row["id"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert all(row["text"] and row["cost"]["emitted_tokens"] for row in rows)
    judge = detectors(keys, splitter=FakeSplitter())
    own, other = (
        detect(
            [{**row, "key": number} for row in rows], detector_of=judge, parameters={"edits": False}
        )
        for number in (1, 2)
    )
    mean = [float(np.mean([np.log10(row["p_value"]) for row in some])) for some in (own, other)]
    assert mean[0] < mean[1] - 1.0
    assert judge("bilinear", 1) is judge("bilinear", 1)


def test_unmarked_texts_are_written_and_judged_under_the_key_of_a_point() -> None:
    keys = ExperimentKeys(FakeEncoder())
    rows = write(
        PROMPTS[:2],
        point=UNMARKED,
        number=0,
        keys=keys,
        backend=FakeBackend(),
        splitter=FakeSplitter(),
        config=CONFIG,
    )
    parts = {"calibration": [("0", rows[0]["text"])], "test": [("1", rows[1]["text"])]}
    found = negatives(parts, point="hamming", keys=[3, 4])
    assert [(row["id"], row["key"], row["part"]) for row in found] == [
        ("0", 3, "calibration"),
        ("1", 3, "test"),
        ("0", 4, "calibration"),
        ("1", 4, "test"),
    ]
    judged = detect(found, detector_of=detectors(keys, splitter=FakeSplitter()), parameters={})
    assert [row["part"] for row in judged] == ["calibration", "test"] * 2
    with pytest.raises(ValueError, match=UNMARKED):
        detect(rows, detector_of=detectors(keys), parameters={})


def test_a_longer_run_continues_a_shorter_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    keys = ExperimentKeys(FakeEncoder())
    options = {"point": "hamming", "number": 0, "keys": keys, "splitter": FakeSplitter()}
    few = write(PROMPTS[:3], backend=FakeBackend(), config=CONFIG, path=path, **options)
    backend = FakeBackend()
    more = write(PROMPTS, backend=backend, config=CONFIG, path=path, batch=2, **options)
    assert more[:3] == few
    asked = {request.prompt.text for request in backend.drawn}
    assert asked == {each.text for each in PROMPTS[3:]}
    alone = write(PROMPTS, backend=FakeBackend(), config=CONFIG, **options)
    assert [row["text"] for row in alone] == [row["text"] for row in more]


def test_an_attack_is_loaded_only_if_a_row_is_missing(tmp_path: Path) -> None:
    loaded: list[Case] = []

    def load() -> Case:
        loaded.append(Case(share=1.0))
        return loaded[-1]

    texts = [{"id": n, "text": f"The boat {n} went out."} for n in range(3)]
    options = {"name": "case", "splitter": FakeSplitter(), "path": tmp_path / "rows.jsonl"}
    rows = attack(texts, load=load, judge=FakeEncoder(), batch=2, **options)
    assert len(loaded) == 1
    assert all(row["attack"] == "case" and row["words_changed"] > 0 for row in rows)
    assert attack(texts, load=load, judge=FakeEncoder(), batch=2, **options) == rows
    assert len(loaded) == 1
