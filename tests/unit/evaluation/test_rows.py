"""Rows that survive a broken run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.evaluation.rows import append, fingerprint, read_done, read_rows

RUN = {"attack": "case", "parameters": {"share": 0.5}}


def row(text: str) -> dict[str, object]:
    return {"run": RUN, "fingerprint": fingerprint(RUN, text), "text": text.upper()}


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert read_rows(path) == read_done(path, ["a"], run=RUN) == []
    append(path, [row("a"), row("ß")])
    append(path, [row("c")])
    assert read_rows(path) == [row("a"), row("ß"), row("c")]
    assert read_done(path, ["a", "ß", "c", "d"], run=RUN) == read_rows(path)


@pytest.mark.parametrize("checked", [False, True])
def test_a_row_that_was_never_finished_is_written_anew(tmp_path: Path, checked: bool) -> None:
    path = tmp_path / "rows.jsonl"
    append(path, [row("a"), row("b")])
    path.write_bytes(path.read_bytes()[:-9])
    done = read_done(path, ["a", "b"], run=RUN) if checked else read_rows(path)
    assert done == [row("a")]
    append(path, [row("b")])
    assert read_rows(path) == [row("a"), row("b")]


def test_rows_of_another_run_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append(path, [row("a")])
    before = path.read_bytes() + b"{"
    path.write_bytes(before)
    other = {**RUN, "parameters": {"share": 0.9}}
    with raises_naming(InputError, "share", 0.5, 0.9):
        read_done(path, ["a"], run=other)
    with raises_naming(InputError, path):
        read_done(path, ["b"], run=RUN)
    assert path.read_bytes() == before
