"""The files with the counts of marked sentences, which several processes share."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.server.marking.sentence_record import SentenceRecord

ID = "hm-0123456789ab"


@pytest.fixture
def told() -> list[str | None]:
    return []


@pytest.fixture
def record(tmp_path: Path, told: list[str | None]) -> SentenceRecord:
    return SentenceRecord(tmp_path / "marked", on_problem=told.append)


def test_counts_are_there_for_other_processes(record: SentenceRecord, tmp_path: Path) -> None:
    record.add(ID, "", 3)
    record.add(ID, "2026-11-19", 4)
    record.add(ID, "2026-11-19", 5)
    expected = {"": 3, "2026-11-19": 9}
    assert record.counts(ID) == expected
    other = SentenceRecord(tmp_path / "marked")
    assert other.counts(ID) == {}
    record.write()
    assert record.counts(ID) == other.counts(ID) == expected
    assert other.counts("hm-000000000000") == {}
    path = tmp_path / "marked" / f"{ID}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_label_is_followed_by_one_with_a_number(record: SentenceRecord) -> None:
    def take(count: int) -> str:
        return record.take(ID, "2026-11-19", count=count, most=10)

    assert [take(5), take(5), take(5)] == ["2026-11-19", "2026-11-19", "2026-11-19.2"]
    assert take(30) == "2026-11-19.3"  # one answer may be longer than all that is allowed
    assert take(5) == "2026-11-19.2"
    record.add(ID, "2026-11-19", -3)
    assert [take(3), take(3)] == ["2026-11-19", "2026-11-19.4"]
    assert record.counts(ID) == {
        "2026-11-19": 10, "2026-11-19.2": 10, "2026-11-19.3": 30, "2026-11-19.4": 3,
    }  # fmt: skip
    assert record.take(ID, "2026-11-20", count=5, most=10) == "2026-11-20"
    record.add(ID, "2026-11-20", -5)
    record.write()
    assert "2026-11-20" not in record.counts(ID)  # nothing was marked under it


def test_no_sentence_of_several_processes_is_lost(tmp_path: Path) -> None:
    def work(number: int) -> list[str]:
        mine = SentenceRecord(tmp_path)
        mine.add(ID, "", number)
        return [mine.take(ID, "day", count=1, most=4) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        labels = [label for taken in pool.map(work, range(1, 5)) for label in taken]
    assert sorted(labels) == sorted(["day", "day.2", "day.3", "day.4", "day.5"] * 4)
    assert SentenceRecord(tmp_path).counts(ID)[""] == 10


@pytest.mark.parametrize("how", ["damaged", "open", "other", "folder"])
def test_what_cannot_be_recorded_is_kept_and_told_once(
    record: SentenceRecord, tmp_path: Path, told: list[str | None], how: str
) -> None:
    record.add(ID, "day", 4)
    record.write()
    folder = tmp_path / "marked"
    path = folder / f"{ID}.json"
    content = path.read_bytes()
    if how == "folder":
        folder.rename(tmp_path / "moved")
        folder.write_text("a file in its place")
    else:
        path.write_bytes(b'{"format": "x"}' if how == "other" else content[:20])
        path.chmod(0o644 if how == "open" else 0o600)
    for _ in range(2):
        record.add(ID, "day", 1)
        record.write()
        assert record.take(ID, "day", count=1, most=5) == "day"
    assert len(told) == 1
    assert told[0] is not None
    with raises_naming(InputError, folder):
        record.require_writable(ID)
    if how == "folder":
        folder.unlink()
        (tmp_path / "moved").rename(folder)
    path.write_bytes(content)
    path.chmod(0o600)
    record.write()
    assert SentenceRecord(folder).counts(ID) == record.counts(ID) == {"day": 8}
    assert told[1:] == [None]
