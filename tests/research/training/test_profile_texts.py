"""Which passages the shipped profile is fitted on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from research.training import profile_texts


def test_training_passages_alone_and_as_many_of_each_genre(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"id": f"{genre}/{n}", "genre": genre, "split": split, "sentences": [f"{genre} {n}.", "B."]}
        for n in range(3)
        for genre, split in (("enwik8", "train"), ("wiki100", "train"), ("gutenberg", "heldout"),
                             ("c4", "train"))
    ]  # fmt: skip
    passages, out = tmp_path / "passages.jsonl", tmp_path / "out.jsonl"
    passages.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ["--passages", str(passages), "--most", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["profile_texts", *given])
    profile_texts.main()
    found = [json.loads(line)["text"] for line in out.read_text().splitlines()]
    assert found == ["enwik8 0. B.", "wiki100 0. B.", "enwik8 1. B.", "wiki100 1. B."]
