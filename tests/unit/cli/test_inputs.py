"""Reading texts from files, folders, JSONL and standard input."""

from __future__ import annotations

import codecs
import io
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_naming

from hammingmark.cli.inputs import Source, decode, read_sources, read_texts
from hammingmark.errors import InputError

TEXT = "Größe. 它来了。 \U0001f600"


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-32"),
        codecs.BOM_UTF32_BE + TEXT.encode("utf-32-be"),
    ],
)
def test_a_byte_order_mark_tells_the_encoding(content: bytes) -> None:
    assert decode(content) == TEXT


@given(st.binary(max_size=200))
def test_any_bytes_become_text(content: bytes) -> None:
    text = decode(content)
    text.encode()
    assert decode(text.encode()).removeprefix("\ufeff") == text.removeprefix("\ufeff")


@given(st.text(max_size=100))
def test_utf_8_comes_back(text: str) -> None:
    assert decode(text.encode()) == text.removeprefix("\ufeff")


def read(*names: str | Path, field: str = "text") -> list[Source]:
    return list(read_sources([str(name) for name in names], field=field))


def test_a_folder_gives_its_texts_sorted_at_any_depth(tmp_path: Path) -> None:
    for name in ("b.txt", "a.md", "deep/er/c.TXT", "skip.png", "deep/d.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"text": "line"}' if name.endswith("jsonl") else name)
    sources = read(tmp_path)
    assert [Path(each.name).relative_to(tmp_path).as_posix() for each in sources] == [
        "a.md",
        "b.txt",
        "deep/d.jsonl:1",
        "deep/er/c.TXT",
    ]
    assert [each.text for each in sources] == ["a.md", "b.txt", "line", "deep/er/c.TXT"]


def test_a_folder_says_what_of_it_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.txt", "b.pdf", "in/c.PDF", "d.png", "Makefile", ".hidden", ".git/e.pdf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("Here.")
    assert [source.text for source in read(tmp_path)] == ["Here."]
    warning = capsys.readouterr().err
    assert all(kind in warning for kind in (str(tmp_path), "4", ".pdf (2)", ".png (1)"))
    assert "hidden" not in warning
    assert read(tmp_path / "b.pdf")  # named, it is read
    assert capsys.readouterr().err == ""


def test_an_empty_folder_is_an_error_of_its_own(tmp_path: Path) -> None:
    [sources] = read(tmp_path)
    assert sources.error is not None
    assert "no text" in sources.error


def test_any_suffix_is_read_when_named(tmp_path: Path) -> None:
    path = tmp_path / "strange.xyz"
    path.write_text("Here.")
    assert read(path) == [Source(str(path), "Here.")]


@pytest.mark.parametrize("name", ["absent.txt", "a" * 300, "a/b/c.txt"])
def test_what_cannot_be_read_does_not_stop_the_others(tmp_path: Path, name: str) -> None:
    good = tmp_path / "good.txt"
    good.write_text("Here.")
    missing, sources = read(tmp_path / name, good)
    assert missing.error is not None
    assert missing.error.startswith("Cannot read")
    assert sources.text == "Here."


def test_lines_that_are_no_good_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(
        b'{"text": "one"}\n\nnot json\n{"body": "two"}\n[1]\n{"text": 5}\n'
        + b"[" * 99_999
        + b'\n\xff\n{"text": "three"}'
    )
    sources = read(path)
    assert [each.text for each in sources if not each.error] == ["one", "three"]
    errors = {each.name.rpartition(":")[2]: each.error or "" for each in sources if each.error}
    assert set(errors) == {"3", "4", "5", "6", "7", "8"}
    assert "is not JSON" in errors["3"]
    assert "body" in errors["4"]
    assert "--field" in errors["4"]
    assert "not a JSON object" in errors["5"]


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_file_without_any_line_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    (sources,) = read(path)
    assert sources.error == f"{path} contains no text."


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_byte_order_mark_tells_the_encoding_of_rows_too(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes('{"text": "Größe."}\n{"text": "它来了。"}\n'.encode(encoding))
    assert [each.text for each in read(path)] == ["Größe.", "它来了。"]


def test_a_name_is_not_empty() -> None:
    (sources,) = read("")
    assert sources.error == "A file name is empty."


def test_the_field_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_text(json.dumps({"body": "two", "text": "one"}))
    assert [each.text for each in read(path, field="body")] == ["two"]


@pytest.mark.parametrize("names", [(), ("-",)])
def test_standard_input_is_read_as_bytes(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode("utf-16"))))
    assert read(*names) == [Source("-", TEXT)]


def test_files_are_opened_one_by_one(tmp_path: Path) -> None:
    first, second = tmp_path / "1.txt", tmp_path / "2.txt"
    first.write_text("one")
    sources = read_sources([str(first), str(second)], field="text")
    assert next(sources).text == "one"
    second.write_text("written later")
    assert next(sources).text == "written later"


@pytest.mark.skipif(os.name != "posix", reason="permissions are others here")
def test_a_folder_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/one.txt", "shut/two.txt", "z/three.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("Here.")
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    sources = read(tmp_path)
    assert [each.text for each in sources if not each.error] == ["Here.", "Here."]
    (error,) = [each.error for each in sources if each.error]
    assert error == f"Cannot read {tmp_path / 'shut'}: Permission denied."
    (only,) = read(tmp_path / "shut")
    assert only.error == f"Cannot read {tmp_path / 'shut'}: Permission denied."


def test_where_all_are_needed_one_failure_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Here.")
    assert read_texts([str(tmp_path)], field="text") == ["Here."]
    with raises_naming(InputError, "absent"):
        read_texts([str(tmp_path), str(tmp_path / "absent")], field="text")
