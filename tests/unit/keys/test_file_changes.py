"""Files are known again, unless a change might not show yet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hammingmark.keys.file_changes import state_of


def test_a_file_that_changed_a_moment_ago_is_not_known_again(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    assert state_of(tmp_path / "one") is None


def test_a_file_dated_in_the_future_is_known_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its date is what a tool set; the system's own time of change tells of every change."""
    path = tmp_path / "one"
    path.write_text("1")
    later = path.stat().st_ctime_ns + 3_600_000_000_000
    os.utime(path, ns=(later, 2 * later))
    monkeypatch.setattr("hammingmark.keys.file_changes.time.time_ns", lambda: later)
    assert state_of(path) is not None
    monkeypatch.setattr("hammingmark.keys.file_changes.time.time_ns", lambda: 2 * later)
    assert state_of(path) is None  # a change now may give it the same date


def test_files_are_known_again_until_one_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("1")
    later = one.stat().st_ctime_ns + 3_600_000_000_000
    monkeypatch.setattr("hammingmark.keys.file_changes.time.time_ns", lambda: later)
    before = state_of(one, other)
    assert before is not None
    assert state_of(one, other) == before
    other.write_text("2")
    appeared = state_of(one, other)
    assert appeared != before
    other.unlink()
    assert state_of(one, other) == before
    one.write_text("12")
    assert state_of(one, other) != before
