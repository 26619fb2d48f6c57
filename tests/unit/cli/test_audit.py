"""Verifying an audit log from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hammingmark.server.audit import AuditLog

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    with AuditLog(path) as log_writer:
        for number in range(3):
            log_writer.append({"event": "note", "number": number}).result()
    return path


def test_a_whole_log_is_told_with_the_hash_of_its_last_line(command: Run, log: Path) -> None:
    code, out, err = command("audit", "verify", log.name)
    assert (code, err) == (0, "")
    assert out.startswith("6 lines; ")
    code, printed, _ = command("audit", "verify", log.name, "--json")
    record = json.loads(printed)
    assert (code, record["lines"], record["problems"]) == (0, 6, [])
    assert record["head"] in out
    assert command("audit", "verify", log.name, "--holds", record["head"])[0] == 0


def test_a_line_that_was_taken_out_is_named(command: Run, log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    code, out, err = command("audit", "verify", log.name)
    assert (code, err) == (1, "")
    assert out.startswith("audit.jsonl:4 does not follow the line before it")
    code, out, _ = command("audit", "verify", log.name, "--json")
    assert code == 1
    assert len(json.loads(out)["problems"]) == 1


def test_lines_cut_off_the_end_show_by_a_hash_that_was_kept(command: Run, log: Path) -> None:
    head = json.loads(command("audit", "verify", log.name, "--json")[1])["head"]
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert command("audit", "verify", log.name)[0] == 0
    code, out, _ = command("audit", "verify", log.name, "--holds", head)
    assert code == 1
    assert f"No line has the hash {head}" in out


def test_files_that_were_moved_away_are_followed(command: Run, log: Path) -> None:
    with AuditLog(log) as log_writer:
        moved = log.rename(log.with_name("audit.jsonl.1"))
        log_writer.append({"event": "note"}).result()
    assert command("audit", "verify", log.name)[0] == 0
    assert command("audit", "verify", log.name, "--earlier", moved.name)[0] == 0
    moved.write_bytes(b"".join(moved.read_bytes().splitlines(keepends=True)[:-1]))
    code, out, _ = command("audit", "verify", log.name, "--earlier", moved.name)
    assert code == 1
    assert "audit.jsonl:1 does not follow the last line of audit.jsonl.1" in out


def test_a_file_that_is_not_there_is_an_error_and_a_hash_that_is_none_is_wrong_usage(
    command: Run, log: Path
) -> None:
    code, out, err = command("audit", "verify", "absent.jsonl")
    assert (code, out) == (1, "")
    assert "Cannot read the audit log absent.jsonl" in err
    code, _, err = command("audit", "verify", log.name, "--holds", "abc")
    assert code == 2
    assert "--holds" in err
