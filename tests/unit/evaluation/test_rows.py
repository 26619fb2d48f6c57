"""Resumable rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.evaluation.rows import (
    Row,
    append,
    complete,
    fingerprint,
    read_done,
    read_rows,
    read_run,
)

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
def test_an_unfinished_row_is_written_again(tmp_path: Path, checked: bool) -> None:
    path = tmp_path / "rows.jsonl"
    append(path, [row("a"), row("b")])
    path.write_bytes(path.read_bytes()[:-9])
    done = read_done(path, ["a", "b"], run=RUN) if checked else read_rows(path)
    assert done == [row("a")]
    append(path, [row("b")])
    assert read_rows(path) == [row("a"), row("b")]


def test_rows_of_another_run_are_refused_and_not_changed(tmp_path: Path) -> None:
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


SOURCES: list[Row] = [{"id": n, "text": f"text {n}", "seconds": 0.1 * n} for n in range(10)]


class Maker:
    """Makes rows, and is killed after some of them."""

    def __init__(self, dies_after: int = 1000) -> None:
        self.batches: list[list[int]] = []
        self._left = dies_after

    def __call__(self, first: int, sources: Sequence[Row]) -> list[Row]:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        self.batches.append([source["id"] for source in sources])
        return [{**s, "text": f"{first + n}: {s['text']}"} for n, s in enumerate(sources)]


@pytest.mark.parametrize("shared", [False, True])
def test_a_killed_run_resumes_and_makes_no_row_twice(tmp_path: Path, shared: bool) -> None:
    path = tmp_path / "folder" / "rows.jsonl"
    options = {"run": RUN, "batch": 3, "shared": shared}
    whole = complete(SOURCES, make=Maker(), **options)
    with pytest.raises(KeyboardInterrupt):
        complete(SOURCES, make=Maker(2), path=path, **options)
    with path.open("ab") as file:
        file.write(b'{"half of a row')
    rest = Maker()
    assert complete(SOURCES, make=rest, path=path, **options) == whole
    assert rest.batches == [[6, 7, 8], [9]]
    assert read_run(path) == whole
    again = Maker(0)
    assert complete(SOURCES, make=again, path=path, **options) == whole


def test_only_changed_rows_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    complete(SOURCES, run=RUN, make=Maker(), path=path, batch=4)
    slower = [{**source, "seconds": 9.0} for source in SOURCES]
    complete(slower, run=RUN, make=Maker(0), path=path, batch=4)
    changed = [{**s, "text": "new"} if s["id"] in (1, 6, 7) else s for s in SOURCES]
    maker = Maker()
    rows = complete(changed, run=RUN, make=maker, path=path, batch=4)
    assert maker.batches == [[1], [6, 7]]
    assert [row["id"] for row in rows] == list(range(10))
    moved = Maker()
    complete(SOURCES[1:3], run=RUN, make=moved, path=path)
    assert moved.batches == [[1], [2]]


def test_rows_that_share_a_batch_are_made_again_together(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    options = {"run": RUN, "batch": 4, "shared": True, "path": path}
    complete(SOURCES, make=Maker(), **options)
    maker = Maker()
    complete([*SOURCES, {"id": 10, "text": "new"}], make=maker, **options)
    assert maker.batches == [[8, 9, 10]]


def test_another_run_has_rows_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    complete(SOURCES, run=RUN, make=Maker(), path=path)
    maker = Maker()
    complete(SOURCES, run={**RUN, "attack": "typos"}, make=maker, path=path)
    assert len(maker.batches) == 10
    with pytest.raises(InputError):
        read_run(path)


def test_every_source_needs_a_row() -> None:
    with pytest.raises(ValueError, match="zip"):
        complete(SOURCES, run=RUN, make=lambda first, sources: [])
