"""The audit log: on the disk before the answer leaves, whatever happens to the process."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.errors import raises_naming

import hammingmark
from hammingmark.errors import AuditError
from hammingmark.server import audit, audit_file
from hammingmark.server.audit import AuditLog, AuditTimeout, verify, wait_until_written
from hammingmark.server.audit_file import check

LONG = 300.0  # seconds; only a test that hangs waits for so long
TEXT = "The secret recipe is salt. Nobody may read it here."


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def events(path: Path) -> list[str]:
    return [row["event"] for row in rows(path)]


def begin(log: AuditLog, request_id: str, **changes: Any) -> Future[None]:
    fields: dict[str, Any] = {
        "endpoint": "/v1/completions", "model": "house", "api_key": "website", "key_id": "hm-1",
        "label": None,
    }  # fmt: skip
    return log.begin(request_id, **(fields | changes))


def end(log: AuditLog, request_id: str, **changes: Any) -> Future[None]:
    fields: dict[str, Any] = {
        "model": "house", "api_key": "website", "key_id": "hm-1", "label": None, "text": TEXT,
        "status": "marked", "reason": "Every sentence was accepted.",
        "counts": {"sentences": 2, "p_value": None},
    }  # fmt: skip
    return log.end(request_id, **(fields | changes))


def run_script(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    """A process of its own that runs Python; what it prints can be read."""
    source = str(Path(hammingmark.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source},
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def log(path: Path) -> Iterator[AuditLog]:
    with AuditLog(path) as made:
        yield made


class Gate:
    """Holds up every fsync until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.reached = threading.Event()
        self.opened = threading.Event()
        really = os.fsync

        def fsync(handle: int) -> None:
            self.calls += 1
            self.reached.set()
            assert self.opened.wait(LONG)
            really(handle)

        monkeypatch.setattr(os, "fsync", fsync)


@pytest.fixture
def gate(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A closed gate, which opens before the log is closed, whatever the test has found."""
    made = Gate(monkeypatch)
    yield made
    made.opened.set()


class Fault:
    """Makes a function of the operating system fail while it is on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
        self.is_on = False
        really: Callable[..., Any] = getattr(os, name)

        def call(*arguments: Any) -> Any:
            if self.is_on:
                raise OSError(number, os.strerror(number))
            return really(*arguments)

        monkeypatch.setattr(os, name, call)


# What is recorded.


def test_an_answer_is_recorded_with_its_hash_and_never_its_text(path: Path, log: AuditLog) -> None:
    begin(log, "r-1", label="blog").result()
    end(log, "r-1", label="blog").result()
    log.close()
    assert events(path) == ["file", "started", "begin", "end", "stopped"]
    _, _, first, last, _ = rows(path)
    assert first["request_id"] == last["request_id"] == "r-1"
    assert {name: first[name] for name in ("endpoint", "api_key", "key_id", "label", "model")} == {
        "endpoint": "/v1/completions", "api_key": "website", "key_id": "hm-1", "label": "blog",
        "model": "house",
    }  # fmt: skip
    assert last["text_sha256"] == hashlib.sha256(TEXT.encode()).hexdigest()
    assert last["text_characters"] == len(TEXT)
    assert last["counts"] == {"sentences": 2, "p_value": None}
    assert (last["status"], last["error"]) == ("marked", None)
    content = path.read_text()
    assert not any(word in content for word in ("salt", "recipe", "Nobody"))


def test_the_hash_can_be_left_out(path: Path) -> None:
    with AuditLog(path, text_hash="none") as log:
        end(log, "r-1").result()
    assert not [row for row in rows(path) if "text_sha256" in row]
    assert hashlib.sha256(TEXT.encode()).hexdigest() not in path.read_text()


def test_times_are_of_utc(path: Path) -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    with AuditLog(path, now=lambda: datetime(2030, 1, 2, 3, 4, 5, 678900, zone)) as log:
        log.append({"event": "note"}).result()
    assert {row["time"] for row in rows(path)} == {"2030-01-01T21:34:05.678+00:00"}


def test_a_text_that_is_not_quite_unicode_is_hashed_too(path: Path, log: AuditLog) -> None:
    end(log, "r-1", text="half a pair \ud83d").result()
    assert rows(path)[-1]["text_characters"] == 13


def test_what_is_no_plain_data_is_refused_at_once_and_leaves_nothing(
    path: Path, log: AuditLog
) -> None:
    with pytest.raises(TypeError):
        log.append({"event": "note", "what": object()})
    with pytest.raises(ValueError, match="JSON"):
        end(log, "r-1", counts={"p_value": float("nan")})
    log.append({"event": "note", "what": "line\nbreak\u2028"}).result()
    assert events(path) == ["file", "started", "note"]
    assert verify(path) == []


def test_a_record_changed_by_its_caller_afterwards_stays_as_it_was(
    path: Path, log: AuditLog
) -> None:
    record = {"event": "note", "number": 1}
    future = log.append(record)
    record["number"] = 2
    future.result()
    assert rows(path)[-1]["number"] == 1


def test_the_file_is_private(path: Path, log: AuditLog) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# On the disk before the caller goes on, many at a time.


def test_nobody_goes_on_before_the_disk_has_it_and_all_who_wait_share_one_sync(
    path: Path, log: AuditLog, gate: Gate
) -> None:
    first = begin(log, "first")
    assert gate.reached.wait(LONG)
    others = [begin(log, f"r-{number}") for number in range(50)]
    assert not first.done()
    assert not any(future.done() for future in others)
    gate.opened.set()
    for future in (first, *others):
        future.result(LONG)
    assert gate.calls == 2
    wanted = ["first", *(f"r-{number}" for number in range(50))]
    assert [row["request_id"] for row in rows(path)[2:]] == wanted


def test_many_threads_may_append(path: Path, log: AuditLog) -> None:
    names = [f"r-{number}" for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        for future in list(pool.map(lambda name: begin(log, name), names)):
            future.result()
    assert sorted(row["request_id"] for row in rows(path)[2:]) == sorted(names)
    assert verify(path) == []


def test_tasks_wait_without_holding_up_their_loop(path: Path, log: AuditLog, gate: Gate) -> None:
    async def main() -> None:
        tasks = [asyncio.create_task(wait_until_written(begin(log, f"r-{n}"))) for n in range(20)]
        while not gate.reached.is_set():
            await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        gate.opened.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert len(rows(path)) == 22


def test_a_task_that_is_cancelled_leaves_its_record(path: Path, log: AuditLog, gate: Gate) -> None:
    async def main() -> None:
        future = end(log, "r-1")
        task = asyncio.create_task(wait_until_written(future))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not future.cancelled()
        gate.opened.set()
        await wait_until_written(future)

    asyncio.run(main())
    assert events(path)[-1] == "end"


def test_closing_writes_what_waits_and_then_nothing_more(
    path: Path, log: AuditLog, gate: Gate
) -> None:
    begin(log, "first")
    assert gate.reached.wait(LONG)
    futures = [begin(log, f"r-{number}") for number in range(5)]
    gate.opened.set()
    log.close()
    log.close()
    assert all(future.done() and future.exception() is None for future in futures)
    assert events(path)[-1] == "stopped"
    late = begin(log, "late")
    with raises_naming(AuditError, path, "closed"):
        late.result()
    assert "late" not in path.read_text()


# What is left of a process that ended early.


def test_what_was_begun_and_not_ended_is_recorded_at_the_next_start(path: Path) -> None:
    with AuditLog(path) as log:
        for name in ("done", "left", "other"):
            begin(log, name).result()
        begin(log, "several", choice=0, key_id="hm-2", label="blog").result()
        begin(log, "several", choice=1).result()
        end(log, "done").result()
        end(log, "several", choice=1).result()
    before = {(row.get("request_id"), row.get("choice")): row for row in rows(path)}
    with AuditLog(path):
        pass
    found = [row for row in rows(path) if row["event"] == "interrupted"]
    assert [(row["request_id"], row["choice"]) for row in found] == [
        ("left", 0), ("other", 0), ("several", 0),
    ]  # fmt: skip
    assert (found[2]["key_id"], found[2]["label"]) == ("hm-2", "blog")
    assert found[2]["began"] == before["several", 0]["time"]
    with AuditLog(path):
        pass
    assert events(path).count("interrupted") == 3
    assert verify(path) == []


def test_a_last_line_that_was_never_finished_is_set_aside(path: Path) -> None:
    with AuditLog(path) as log:
        begin(log, "whole").result()
        end(log, "whole").result()
    content = path.read_bytes()
    whole = content[: content.rstrip(b"\n").rfind(b"\n") + 1]
    last = content[len(whole) : -1]
    aside = path.with_name("audit.jsonl.torn")
    for length in range(1, len(last) + 1, 7):
        aside.unlink(missing_ok=True)
        path.write_bytes(whole + last[:length])
        AuditLog(path).close()
        assert aside.read_bytes() == last[:length] + b"\n"
        assert path.read_bytes().startswith(whole)
        started = rows(path)[len(whole.splitlines())]
        assert (started["event"], started["torn_bytes"]) == ("started", length)
        assert verify(path) == []
    path.write_bytes(whole + b"second")
    AuditLog(path).close()
    assert aside.read_bytes().endswith(b"\nsecond\n")
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"{", b'{"previous": n', b'{"previous": null, "time": "20'])
def test_a_file_whose_first_line_was_never_finished_begins_anew(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with AuditLog(path) as log:
        begin(log, "r-1").result()
    assert path.with_name("audit.jsonl.torn").read_bytes() == content + b"\n"
    assert events(path)[:2] == ["file", "started"]
    assert verify(path) == []


@pytest.mark.parametrize(
    "content", [b"notes", b"notes\n", b'{"event": "begin"}\n', b"[]\n", b"\n", b"\xff\n"]
)
def test_a_file_that_is_no_audit_log_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with raises_naming(AuditError, path):
        AuditLog(path)
    assert path.read_bytes() == content
    path.unlink()
    AuditLog(path).close()  # nothing holds it


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with raises_naming(AuditError, pipe):
        AuditLog(pipe)
    with raises_naming(AuditError, tmp_path / "absent"):
        AuditLog(tmp_path / "absent" / "audit.jsonl")
    assert not (tmp_path / "absent").exists()
    (tmp_path / "folder").mkdir()
    with raises_naming(AuditError, tmp_path / "folder"):
        AuditLog(tmp_path / "folder")


KILLED = """
import itertools, os, sys, threading
from pathlib import Path
from hammingmark.server.audit import AuditLog

log = AuditLog(Path(sys.argv[1]))
common = dict(model="house", api_key=None, key_id="hm-1", label=None)

def work(number):
    for count in itertools.count():
        name = f"{number}-{count}"
        log.begin(name, endpoint="/", **common).result()
        os.write(1, f"begin {name}\\n".encode())
        if count % 3:
            log.end(name, status="marked", reason="", text="", counts={}, **common).result()
            os.write(1, f"end {name}\\n".encode())

for number in range(6):
    threading.Thread(target=work, args=(number,), daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.parametrize("lines", [1, 40, 333])
def test_what_was_acknowledged_survives_a_kill(path: Path, lines: int) -> None:
    process = run_script(KILLED, path)
    assert process.stdout is not None
    try:
        told = [process.stdout.readline() for _ in range(lines)]
    finally:
        process.send_signal(signal.SIGKILL)
    told += process.stdout.read().splitlines()
    process.stdout.close()
    assert process.wait(LONG) == -signal.SIGKILL
    acknowledged = [tuple(line.decode().split()) for line in told]
    assert len(acknowledged) >= lines

    AuditLog(path).close()
    assert verify(path) == []
    found = [(row["event"], row["request_id"]) for row in rows(path) if "request_id" in row]
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))
    begun = {name for event, name in found if event == "begin"}
    ended = {name for event, name in found if event == "end"}
    interrupted = {name for event, name in found if event == "interrupted"}
    assert interrupted == begun - ended
    assert any(name.endswith("-0") for name in interrupted)


# Only one process.


def test_only_one_may_hold_a_log(path: Path, log: AuditLog) -> None:
    with raises_naming(AuditError, path, "process"):
        AuditLog(path)
    script = "import sys\nfrom pathlib import Path\nfrom hammingmark.server.audit import AuditLog\n"
    script += "try:\n    AuditLog(Path(sys.argv[1]))\nexcept Exception as error:\n    print(error)"
    process = run_script(script, path)
    said, _ = process.communicate(timeout=LONG)
    assert b"Another process has the audit log" in said
    begin(log, "r-1").result()
    log.close()
    AuditLog(path).close()
    assert verify(path) == []


# A disk that does not take it.


FULL = """
import json, os, resource, sys, threading
from pathlib import Path
from hammingmark.errors import AuditError
from hammingmark.server.audit import AuditLog, verify

path, by_itself = Path(sys.argv[1]), sys.argv[2] == "by itself"
recovered, troubled = threading.Event(), threading.Event()
log = AuditLog(
    path,
    retry=0.01 if by_itself else 1e6,
    on_problem=lambda problem: (troubled if problem else recovered).set(),
)
log.append({"event": "before"}).result()
size = path.stat().st_size
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 60, most))  # room for a part of a line
errors = []
for number in range(3):
    try:
        log.append({"event": "refused", "number": number, "padding": "x" * 100}).result()
    except AuditError as error:
        errors.append(str(error))
troubled.wait()
during = {"problem": log.problem}
if not by_itself:  # else it is being tried again, and half a line may be there for a moment
    during |= {"size": path.stat().st_size, "wrong": verify(path)}
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
if by_itself:
    recovered.wait()
log.append({"event": "after"}).result()
after = log.problem
log.close()
print(json.dumps({"errors": errors, "size": size, "during": during, "after": after}))
"""


@pytest.mark.parametrize("how", ["by itself", "with the next record"])
def test_a_full_disk_refuses_records_leaves_no_half_line_and_is_got_over(
    path: Path, how: str
) -> None:
    process = run_script(FULL, path, how)
    said, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0
    told = json.loads(said)
    assert len(told["errors"]) == 3
    expected = (
        f"Cannot write the audit log {path}: {os.strerror(errno.EFBIG)}. Free space on the disk."
    )
    assert set(told["errors"]) == {expected}
    unchanged = {"size": told["size"], "wrong": []} if how != "by itself" else {}
    assert told["during"] == {"problem": expected, **unchanged}
    assert told["after"] is None
    assert events(path) == ["file", "started", "before", "recovered", "after", "stopped"]
    assert rows(path)[3]["lost"] == 3
    assert verify(path) == []


def test_a_sync_that_fails_takes_its_records_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str | None] = []
    with AuditLog(path, retry=LONG, on_problem=told.append) as log:
        fault = Fault(monkeypatch, "fsync", errno.EIO)
        before = path.read_bytes()
        fault.is_on = True
        for name in ("a", "b"):
            with raises_naming(AuditError, path, "Input/output error"):
                begin(log, name).result()
        assert path.read_bytes() == before
        assert log.problem is not None
        assert "Input/output error" in repr(log)
        fault.is_on = False
        begin(log, "c").result()
        assert log.problem is None
        assert told == [told[0], None]
    assert [row.get("request_id") for row in rows(path)[2:]] == [None, "c", None]
    AuditLog(path).close()
    interrupted = [row["request_id"] for row in rows(path) if row["event"] == "interrupted"]
    assert interrupted == ["c"]  # a and b never began
    assert verify(path) == []


def test_ends_that_the_disk_did_not_take_are_written_when_it_does(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []
    with AuditLog(path, retry=LONG, on_refused=refused.append) as log:
        for name in ("a", "b"):
            begin(log, name).result()
        fault = Fault(monkeypatch, "fsync", errno.EIO)
        fault.is_on = True
        with pytest.raises(AuditError):
            end(log, "a").result()
        with pytest.raises(AuditError):
            end(log, "b", error="cut short", status="partly").result()
        with pytest.raises(AuditError):
            begin(log, "c").result()
        with pytest.raises(AuditError):
            end(log, "c").result()  # it never began
        path.rename(path.with_name("moved"))
        fault.is_on = False
        assert refused == [1] * 4
        begin(log, "d").result()
        end(log, "d").result()
    assert events(path) == [
        "file", "carried", "carried", "end", "end", "recovered", "begin", "end", "stopped",
    ]  # fmt: skip
    late = rows(path)[3:5]
    assert [(row["request_id"], row["late"], row["error"]) for row in late] == [
        ("a", True, "not recorded in time"), ("b", True, "cut short"),
    ]  # fmt: skip
    assert late[0]["text_sha256"] == hashlib.sha256(TEXT.encode()).hexdigest()
    assert late[0]["time"] <= rows(path)[5]["time"]
    assert rows(path)[5]["lost"] == 2
    assert "late" not in rows(path)[7]
    assert verify(path, earlier=[path.with_name("moved")]) == []
    AuditLog(path).close()
    assert "interrupted" not in events(path)


def test_ends_that_are_kept_are_written_without_another_record(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovered = threading.Event()

    def listen(problem: str | None) -> None:
        if problem is None:
            recovered.set()

    with AuditLog(path, retry=0.01, on_problem=listen) as log:
        begin(log, "a").result()
        fault = Fault(monkeypatch, "fsync", errno.EIO)
        fault.is_on = True
        with pytest.raises(AuditError):
            end(log, "a").result()
        fault.is_on = False
        assert recovered.wait(LONG)
        assert events(path) == ["file", "started", "begin", "end", "recovered"]


def test_ends_that_are_kept_are_written_when_the_log_is_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog(path, retry=LONG)
    begin(log, "a").result()
    fault = Fault(monkeypatch, "fsync", errno.EIO)
    fault.is_on = True
    with pytest.raises(AuditError):
        end(log, "a").result()
    fault.is_on = False
    log.close()
    assert events(path) == ["file", "started", "begin", "end", "recovered", "stopped"]
    assert rows(path)[4]["lost"] == 0


def test_what_is_kept_is_bounded_and_the_rest_is_told_as_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hammingmark.server.audit._MAX_LATE", 2)
    with AuditLog(path, retry=LONG) as log:
        for number in range(5):
            begin(log, f"r-{number}").result()
        fault = Fault(monkeypatch, "fsync", errno.EIO)
        fault.is_on = True
        for number in range(5):
            with pytest.raises(AuditError):
                end(log, f"r-{number}").result()
        fault.is_on = False
    assert [row["request_id"] for row in rows(path) if row["event"] == "end"] == ["r-0", "r-1"]
    (recovered,) = [row for row in rows(path) if row["event"] == "recovered"]
    assert recovered["lost"] == 3
    AuditLog(path).close()
    assert events(path).count("interrupted") == 3  # so that each has an end in any case


def test_half_a_line_that_cannot_be_cut_off_at_once_is_cut_off_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AuditLog(path, retry=LONG) as log:
        sync = Fault(monkeypatch, "fsync", errno.EIO)
        cut = Fault(monkeypatch, "ftruncate", errno.EIO)
        before = path.stat().st_size
        sync.is_on = cut.is_on = True
        with pytest.raises(AuditError):
            begin(log, "a").result()
        assert path.stat().st_size > before
        sync.is_on = False
        with pytest.raises(AuditError):
            begin(log, "b").result()
        cut.is_on = False
        begin(log, "c").result()
    assert [row["request_id"] for row in rows(path) if "request_id" in row] == ["c"]
    assert verify(path) == []


def test_whatever_goes_wrong_nobody_waits_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listen(problem: str | None) -> None:
        raise RuntimeError("the listener is broken, too")

    with AuditLog(path, retry=LONG, on_problem=listen) as log:
        with monkeypatch.context() as patched:
            patched.setattr(audit_file, "_hash_of", None)
            with raises_naming(AuditError, "TypeError"):
                begin(log, "a").result(LONG)
        begin(log, "b").result(LONG)
    assert verify(path) == []


def test_nobody_waits_for_a_disk_that_hangs(
    path: Path, log: AuditLog, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = begin(log, "r-1")
    assert gate.reached.wait(LONG)
    with raises_naming(AuditTimeout, 0.01):
        asyncio.run(wait_until_written(begun, timeout=0.01))
    monkeypatch.setattr(audit, "_STUCK", 0.0)
    assert log.is_stuck
    monkeypatch.setattr(audit, "_TIMEOUT", 0.01)
    log.close()  # does not wait for it either
    with raises_naming(AuditError, path, "process"):
        AuditLog(path)
    gate.opened.set()
    begun.result(LONG)
    log._thread.join(LONG)
    assert not log.is_stuck
    assert [row["event"] for row in rows(path)][-2:] == ["begin", "stopped"]


def test_a_full_disk_on_start_is_told_and_the_log_can_be_had_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Fault(monkeypatch, "write", errno.ENOSPC)
    fault.is_on = True
    with raises_naming(AuditError, path, "No space left on device"):
        AuditLog(path)
    fault.is_on = False
    AuditLog(path).close()
    assert verify(path) == []


# Files that are moved away.


def test_a_file_that_was_moved_away_is_followed_by_another(path: Path) -> None:
    moved = [path.with_name(f"audit.jsonl.{number}") for number in range(2)]
    with AuditLog(path) as log:
        begin(log, "short").result()
        end(log, "short").result()
        begin(log, "long").result()
        path.rename(moved[0])
        begin(log, "second").result()
        path.rename(moved[1])
        path.touch()  # as logrotate's `create` does
        begin(log, "third").result()
        head = log.head
        last = path.read_bytes().splitlines()[-1]
        assert head == hashlib.sha256(last).hexdigest()
    assert events(moved[0]) == ["file", "started", "begin", "end", "begin"]
    assert events(moved[1]) == ["file", "carried", "begin"]
    assert events(path) == ["file", "carried", "carried", "begin", "stopped"]
    assert verify(path, earlier=moved) == []
    assert verify(path) == verify(moved[1]) == verify(moved[0]) == []
    assert len(verify(path, earlier=moved[:1])) == 1

    AuditLog(path).close()
    interrupted = [row for row in rows(path) if row["event"] == "interrupted"]
    assert {row["request_id"] for row in interrupted} == {"long", "second", "third"}
    (long,) = (row for row in interrupted if row["request_id"] == "long")
    assert long["began"] == rows(moved[0])[4]["time"]


def test_no_record_is_lost_while_files_are_moved(path: Path) -> None:
    moved = []
    with AuditLog(path) as log, ThreadPoolExecutor(4) as pool:
        for turn in range(6):
            begin(log, f"{turn}-first").result()  # so that there is a file
            later = [pool.submit(begin, log, f"{turn}-{number}") for number in range(20)]
            moved.append(path.with_name(f"audit.jsonl.{turn}"))
            path.rename(moved[-1])
            for each in later:
                each.result().result()
        begin(log, "last").result()
    found = [
        row["request_id"]
        for each in (*moved, path)
        for row in rows(each)
        if row["event"] == "begin"
    ]
    wanted = [f"{turn}-{number}" for turn in range(6) for number in ("first", *range(20))]
    assert sorted(found) == sorted([*wanted, "last"])
    assert verify(path, earlier=moved) == []


def test_a_file_that_was_emptied_begins_anew_and_names_what_was_before(path: Path) -> None:
    copy = path.with_name("copy")
    with AuditLog(path) as log:
        begin(log, "r-1").result()
        copy.write_bytes(path.read_bytes())
        os.truncate(path, 0)
        end(log, "r-1").result()
    assert events(path) == ["file", "carried", "end", "stopped"]
    assert verify(path, earlier=[copy]) == []


def test_what_another_program_wrote_into_it_shows(path: Path) -> None:
    with AuditLog(path) as log:
        begin(log, "r-1").result()
        with path.open("ab") as file:
            file.write(b"stray\nhalf")
        begin(log, "r-2").result()
    assert path.with_name("audit.jsonl.torn").read_bytes() == b"half\n"
    assert [problem.split(" ")[0] for problem in verify(path)] == [f"{path}:4", f"{path}:5"]


def test_a_file_in_its_place_that_is_no_audit_log_is_not_touched(path: Path) -> None:
    with AuditLog(path, retry=LONG) as log:
        begin(log, "r-1").result()
        path.rename(path.with_name("moved"))
        path.write_text("mine\n")
        with raises_naming(AuditError, path):
            begin(log, "r-2").result()
        assert path.read_text() == "mine\n"
        path.unlink()
        begin(log, "r-3").result()
    assert verify(path, earlier=[path.with_name("moved")]) == []


# What the chain shows.


@pytest.fixture
def ten(path: Path) -> list[bytes]:
    """The lines of a log of ten answers."""
    with AuditLog(path) as log:
        for number in range(10):
            begin(log, f"r-{number}").result()
            end(log, f"r-{number}").result()
    return path.read_bytes().splitlines(keepends=True)


def test_any_line_that_was_changed_removed_added_or_moved_is_noticed(
    path: Path, ten: list[bytes]
) -> None:
    assert verify(path) == []
    for place in range(len(ten) - 1):
        line = ten[place]
        changed = line.replace(b"2", b"3").replace(b"1", b"2")
        assert changed != line
        for lines in (
            [*ten[:place], changed, *ten[place + 1 :]],
            [*ten[:place], *ten[place + 1 :]],
            [*ten[:place], line, line, *ten[place + 1 :]],
            [*ten[:place], ten[place + 1], line, *ten[place + 2 :]],
            [*ten[:place], b"{}\n", *ten[place:]],
            [*ten[:place], b"\n", *ten[place:]],
        ):
            path.write_bytes(b"".join(lines))
            assert verify(path) != [], (place, lines[place])


def test_a_problem_names_the_line(path: Path, ten: list[bytes]) -> None:
    path.write_bytes(b"".join([*ten[:5], *ten[6:]]))
    (problem,) = verify(path)
    assert problem.startswith(f"{path}:6 does not follow the line before it")
    path.write_bytes(b"".join(ten[1:]))
    (problem,) = verify(path)
    assert problem.startswith(f"{path}:1 does not begin an audit log")
    path.write_bytes(b"".join(ten)[:-3])
    (problem,) = verify(path)
    assert problem == f"{path}:{len(ten)} is incomplete."
    path.write_bytes(b"")
    (problem,) = verify(path)
    assert problem == f"{path} has no record."
    path.unlink()
    with raises_naming(AuditError, path):
        verify(path)


def test_lines_cut_off_the_end_are_noticed_by_the_hash_of_one_of_them(
    path: Path, ten: list[bytes]
) -> None:
    whole = check(path)
    assert (whole.lines, whole.problems) == (len(ten), [])
    assert whole.head == hashlib.sha256(ten[-1].rstrip()).hexdigest()
    assert check(path, once=hashlib.sha256(ten[3].rstrip()).hexdigest()).problems == []
    path.write_bytes(b"".join(ten[:-1]))
    assert check(path).problems == []
    (problem,) = check(path, once=whole.head).problems
    assert problem.startswith(f"No line has the hash {whole.head}")


def test_lines_cut_off_the_end_are_noticed_once_the_log_goes_on(path: Path) -> None:
    with AuditLog(path) as log:
        begin(log, "r-1").result()
        begin(log, "r-2").result()
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-1]))
        assert verify(path) == []
        begin(log, "r-3").result()
    (problem,) = verify(path)
    assert problem.startswith(f"{path}:4 does not follow the line before it")


def test_a_log_that_another_put_in_its_place_is_noticed(path: Path) -> None:
    other = path.with_name("other.jsonl")
    AuditLog(other).close()
    with AuditLog(path) as log:
        begin(log, "r-1").result()
        other.replace(path)
        begin(log, "r-2").result()
    assert len(verify(path)) == 1
