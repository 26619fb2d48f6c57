"""A whole experiment on fakes: write, attack, detect, tabulate.

    python -m tests.unit.evaluation.small_experiment FOLDER [TEXTS]

prints the table. After so many texts drawn the process kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from hammingmark.assembly.parts import load_attack
from hammingmark.evaluation.datasets.corpora import Document, split_documents
from hammingmark.evaluation.keys import ExperimentKeys
from hammingmark.evaluation.prompts import assign_keys, openings
from hammingmark.evaluation.scores import calibrated_scores, exact_scores
from hammingmark.evaluation.stages import attack, detect, detectors, negatives, write
from hammingmark.evaluation.tables import Column, Table, tabulate
from hammingmark.generation.config import GenerationConfig
from hammingmark.records import Candidate, Request
from hammingmark.testing import FakeBackend, FakeEncoder, FakeSplitter
from hammingmark.testing.fakes import paragraph

POINTS = ("bilinear", "hamming/bits=8,threshold=5")
ATTACKS = {"delete-words": {"share": 0.3}, "shuffle-sentences": {}}
KEYS = 2
COLUMNS = (
    Column("method", "point", required=True),
    Column("attack", "attack", required=True),
    Column("found", "found at 0.05", required=True),
    Column("calibrated", "calibrated at 0.05", required=True),
    Column("achieved", "achieved at 0.05", required=True),
    Column("AUROC", "auroc", required=True),
    Column("bits", "bits", ".2f", required=True),
)


class MortalBackend(FakeBackend):
    """A backend whose process is killed after so many candidates."""

    lives: int | None = None

    def candidate(self, request: Request) -> Candidate:
        """As a fake does, while there is life."""
        if self.lives is not None:
            self.lives -= 1
            if self.lives < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().candidate(request)


def human_documents() -> list[Document]:
    """Texts of the small vocabulary, twelve sentences each."""
    from random import Random

    return [
        Document(str(n), " ".join(paragraph(Random(f"{n} {i}")) for i in range(3)))
        for n in range(24)
    ]


def run(folder: Path, backend: FakeBackend) -> Table:
    """The table, from what the folder holds and what is missing."""
    splitter = FakeSplitter()
    keys = ExperimentKeys(FakeEncoder(dimension=32))
    calibration, test = split_documents(human_documents())
    prompts = assign_keys(openings(human_documents()[:8], splitter, sentences=1), KEYS)
    config = GenerationConfig(max_tokens=90, budget=8)
    results = []
    for point in POINTS:
        name = point.replace("/", "-")
        written = [
            row
            for number, some in prompts.items()
            for row in write(
                some,
                point=point,
                number=number,
                keys=keys,
                backend=backend,
                splitter=splitter,
                config=config,
                path=folder / "written" / f"{name}.jsonl",
                batch=2,
            )
        ]
        judge = detectors(keys, splitter=splitter, references=200)
        parts = {
            part: [(each.id, each.text) for each in some]
            for part, some in (("calibration", calibration), ("test", test))
        }
        human = detect(
            negatives(parts, point=point, keys=range(KEYS)),
            detector_of=judge,
            parameters={"references": 200},
            path=folder / "judged" / f"{name}-human.jsonl",
        )
        outcomes = {"none": written} | {
            each: attack(
                written,
                name=each,
                load=lambda each=each, given=given: load_attack(
                    each, splitter=splitter, parameters=given
                ),
                splitter=splitter,
                parameters=given,
                path=folder / "attacked" / f"{name}-{each}.jsonl",
                batch=3,
            )
            for each, given in ATTACKS.items()
        }
        for each, texts in outcomes.items():
            judged = detect(
                texts,
                detector_of=judge,
                parameters={"references": 200},
                path=folder / "judged" / f"{name}-{each}.jsonl",
                batch=3,
            )
            results.append(
                {
                    "point": point,
                    "attack": each,
                    **exact_scores(judged, levels=[0.05], rounds=20),
                    **calibrated_scores(judged, human, levels=[0.05], rounds=20),
                }
            )
    return tabulate(results, COLUMNS)


if __name__ == "__main__":
    made = MortalBackend()
    made.lives = int(sys.argv[2]) if len(sys.argv) > 2 else None
    print(run(Path(sys.argv[1]), made).markdown(), end="")
