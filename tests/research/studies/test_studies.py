"""The commands of the studies, on fakes, with resumed runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pytest

from hammingmark.evaluation.datasets.corpora import Document
from hammingmark.evaluation.rows import read_rows
from hammingmark.testing import FakeBackend, FakeEncoder, FakeSplitter
from hammingmark.testing.fakes import sentence
from research.studies import attacks, common, evidence, joints, methods, oracle

POINTS = ["unmarked", "bilinear", "hamming/paper"]


def prose(seed: str, count: int) -> list[str]:
    rng = Random(seed)
    return [sentence(rng) for _ in range(count)]


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    path = tmp_path / "passages.jsonl"
    rows = [
        {
            "id": f"{genre}/{n}",
            "genre": genre,
            "split": "train" if n == 0 else "heldout",
            "sentences": prose(f"{genre} {n}", 12),
        }
        for genre in ("c4", "cnn")
        for n in range(9)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    """What all models are while a study runs."""
    backend = FakeBackend()
    for module in (evidence, methods, attacks):
        monkeypatch.setattr(module, "load_backend", lambda *args, **options: backend)
        monkeypatch.setattr(module, "load_encoder", lambda *args: FakeEncoder())
    for module in (evidence, attacks, common):
        monkeypatch.setattr(module, "load_splitter", FakeSplitter)
    monkeypatch.setattr("hammingmark.assembly.marking.splitter_of", lambda key: FakeSplitter())
    monkeypatch.setattr(
        "hammingmark.assembly.readers.splitter_of", lambda *args, **options: FakeSplitter()
    )
    return backend


def run(
    module: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> str:
    monkeypatch.setattr(sys, "argv", ["study", *words])
    module.main()
    return capsys.readouterr().out


def test_evidence_and_methods(
    tmp_path: Path,
    passages: Path,
    backend: FakeBackend,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "out"

    def study(module: object, *words: str) -> str:
        common = ["--out", str(folder), "--passages", str(passages)]
        return run(module, monkeypatch, capsys, *words, *common)

    writing = ["write", "--texts", "8", "--keys", "2", "--tokens", "90", "--points", *POINTS]
    printed = [json.loads(line) for line in study(evidence, *writing).splitlines()]
    assert [(row["point"], row["texts"]) for row in printed] == [(point, 8) for point in POINTS]
    drawn = len(backend.drawn)
    study(evidence, *writing)
    assert len(backend.drawn) == drawn
    study(evidence, "attack", "--attacks", "delete-words")
    assert sorted(path.name for path in folder.iterdir()) == [
        "bilinear.jsonl",
        "delete-words~bilinear.jsonl",
        "delete-words~hamming-paper.jsonl",
        "hamming-paper.jsonl",
        "unmarked.jsonl",
    ]
    judging = ["judge", "--least", "5", "--human", "6", "--rounds", "20", "--crops", "1", "0.5"]
    lines = [json.loads(line) for line in study(evidence, *judging).splitlines()]
    by_file = {(row["file"], row.get("left", 1.0)): row for row in lines}
    whole, half = (by_file["bilinear.jsonl", share] for share in (1.0, 0.5))
    assert whole["found at 0.01"][0] > half["found at 0.01"][0]
    assert {"calibrated at 0.01", "achieved at 0.01", "auroc", "cost", "rep-4"} <= set(whole)
    assert json.loads(study(evidence, *judging).splitlines()[0]) == lines[0]
    leaks = study(evidence, "leak", "--counts", "2").splitlines()
    assert [json.loads(line)["keys"] for line in leaks] == [2]
    quality = tmp_path / "quality"
    quality.write_text('bilinear {"perplexity": 12.34}\n')
    tabled = study(
        methods, "table", "--points", *POINTS, "--human", "6", "--quality", str(quality),
        "--json", str(tmp_path / "table.json"),
    )  # fmt: skip
    assert [line.split(" | ")[0] for line in tabled.splitlines()[2:]] == [
        f"| `{point}`" for point in POINTS
    ]
    rows = json.loads((tmp_path / "table.json").read_text())
    assert [row["perplexity"] for row in rows] == [None, 12.34, None]
    assert rows[2]["the paper's: candidates, acceptance, found"] == "2.2, 0.58, 1.00"


def test_attacks_joints_and_oracle(
    tmp_path: Path,
    backend: FakeBackend,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    documents = [Document(str(n), " ".join(f"{s[:-1]} near the old harbour wall." for s in
                 prose(str(n), 24))) for n in range(4)]  # fmt: skip
    monkeypatch.setattr(attacks, "load_corpus", lambda name: documents)
    common = ["--texts", "4", "--tokens", "60", "--cache", str(tmp_path)]
    monkeypatch.setitem(attacks.INNER, "synonyms", ("swap-words", {"share": 0.5}))
    names = ["delete-words@0.3", "prompt", "copy-paste", "distance-synonyms-same"]
    table = run(attacks, monkeypatch, capsys, *common, "--attacks", *names, "--versions", "3")
    assert [line.split(" | ")[0] for line in table.splitlines()] == [
        "| attack", "| ---", "| none", *(f"| {name}" for name in names)
    ]  # fmt: skip
    (folder,) = tmp_path.iterdir()
    assert {path.stem for path in folder.glob("*.jsonl")} == {"marked", *names}
    written = len(backend.drawn)
    again = run(attacks, monkeypatch, capsys, *common, "--attacks", *names, "--versions", "3")
    assert again == table
    assert len(backend.drawn) == written
    prompts = {row["prompt"] for row in read_rows(folder / "marked.jsonl")}
    assert len(prompts) == 4
    assert "| joined" not in run(joints, monkeypatch, capsys, *common, "--keys", "0")
    asked = run(
        oracle, monkeypatch, capsys, *common, "--inner", "synonyms", "--versions", "2",
        "--queries", "5",
    )  # fmt: skip
    assert "| synonyms | p-value |" in asked
