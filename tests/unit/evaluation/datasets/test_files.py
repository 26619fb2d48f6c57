"""Records from files and folders."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from hammingmark.errors import InputError
from hammingmark.evaluation.datasets.files import read_records

ROWS = [{"id": 1, "text": "One."}, {"id": 2, "text": "Zwei, übrigens."}]


def lines(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def test_json_lines_plain_and_compressed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    plain.write_bytes(lines(ROWS) + b"\n")
    packed.write_bytes(gzip.compress(lines(ROWS)))
    assert read_records(plain) == read_records(packed) == ROWS


def test_a_folder_is_its_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_bytes(lines(ROWS[1:]))
    (tmp_path / "a.jsonl").write_bytes(lines(ROWS[:1]))
    (tmp_path / "README.md").write_text("no records")
    assert read_records(tmp_path) == ROWS


@pytest.mark.parametrize("content", [b"[1]\n", b"{\n", b"\xff\n"])
def test_lines_other_than_json_objects_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines(ROWS) + content)
    with pytest.raises(InputError):
        read_records(path)


def test_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    for path in (tmp_path / "none.jsonl", tmp_path / "a.txt", tmp_path):
        with pytest.raises(InputError):
            read_records(path)


@pytest.mark.parametrize("stream", [False, True])
def test_arrow_files(tmp_path: Path, stream: bool) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.arrow"
    table = pyarrow.Table.from_pylist(ROWS)
    opened = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    with opened(str(path), table.schema) as writer:
        writer.write_table(table)
    assert read_records(path) == ROWS
    path.write_bytes(b"no table")
    with pytest.raises(InputError):
        read_records(path)


def test_arrow_without_its_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError) as refused:
        read_records(path)
    assert "'pyarrow>=" in str(refused.value)
