"""Output files: never lost, never half written."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.errors import raises_naming

from hammingmark.cli import outputs
from hammingmark.cli.outputs import check_output, write_output
from hammingmark.errors import InputError
from hammingmark.keys.keyring import FORMAT

KEY = json.dumps({"format": FORMAT, "secret": "00" * 32}, indent=2) + "\n"


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_new_file_is_written_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_output(tmp_path / "new.txt", "é\ud800\n", overwrite=False)
    assert (tmp_path / "new.txt").read_bytes() == "é?\n".encode()
    assert names(tmp_path) == ["new.txt"]


def test_the_mode_of_a_new_file_is_the_usual_one(tmp_path: Path) -> None:
    write_output(tmp_path / "new.txt", "x", overwrite=False)
    (tmp_path / "plain.txt").write_text("x")
    assert (tmp_path / "new.txt").stat().st_mode == (tmp_path / "plain.txt").stat().st_mode


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    there = tmp_path / "there.txt"
    there.write_text("mine")
    for act in (check_output, lambda path, **how: write_output(path, "new", **how)):
        with raises_naming(InputError, there, "--overwrite"):
            act(there, overwrite=False)
    assert there.read_text() == "mine"


def test_a_file_that_comes_up_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there.txt"

    def pass_and_write(path: Path, *, overwrite: bool) -> None:
        there.write_text("somebody's")

    monkeypatch.setattr(outputs, "check_output", pass_and_write)
    with raises_naming(InputError, there, "--overwrite"):
        write_output(there, "new", overwrite=False)
    assert there.read_text() == "somebody's"
    assert names(tmp_path) == ["there.txt"]


def test_overwriting_keeps_the_mode_and_follows_a_link(tmp_path: Path) -> None:
    there, link = tmp_path / "there.txt", tmp_path / "link.txt"
    there.write_text("old")
    there.chmod(0o640)
    link.symlink_to(there)
    write_output(link, "new", overwrite=True)
    assert link.is_symlink()
    assert there.read_text() == "new"
    assert there.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("content", [KEY, "\ufeff" + KEY, json.dumps(json.loads(KEY))])
def test_a_key_is_never_overwritten(tmp_path: Path, content: str) -> None:
    key, link = tmp_path / "key.json", tmp_path / "link.json"
    key.write_text(content, "utf-8")
    link.symlink_to(key)
    for path in (key, link):
        for act in (check_output, lambda path, **how: write_output(path, "new", **how)):
            with raises_naming(InputError, path, "key file"):
                act(path, overwrite=True)
    assert key.read_text("utf-8") == content


@pytest.mark.parametrize("content", ["", "My diary.", "[]", '{"format": "other"}', "[" * 100_000])
def test_what_is_no_key_is_overwritten(tmp_path: Path, content: str) -> None:
    (tmp_path / "c.json").write_text(content)
    write_output(tmp_path / "c.json", "new", overwrite=True)
    assert (tmp_path / "c.json").read_text() == "new"


def test_a_file_that_cannot_be_read_may_be_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.json").write_text("x")

    def refuse(*how: object, **more: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # root may read everything
    with raises_naming(InputError, tmp_path / "c.json", "Permission denied"):
        check_output(tmp_path / "c.json", overwrite=True)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_is_refused(tmp_path: Path, overwrite: bool) -> None:
    with raises_naming(InputError, tmp_path, "folder"):
        check_output(tmp_path, overwrite=overwrite)
    with raises_naming(InputError, tmp_path / "no" / "c.json"):
        check_output(tmp_path / "no" / "c.json", overwrite=overwrite)


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "old.txt").write_text("old")
    for name, overwrite in (("new.txt", False), ("old.txt", True)):
        with raises_naming(InputError, name, "No space left"):
            write_output(tmp_path / name, "new", overwrite=overwrite)
    assert names(tmp_path) == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "old"


def test_a_file_system_without_hard_links_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(first: Path, second: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_output(tmp_path / "new.txt", "new", overwrite=False)
    assert (tmp_path / "new.txt").read_text() == "new"
    with raises_naming(InputError, tmp_path / "new.txt", "--overwrite"):
        write_output(tmp_path / "new.txt", "newer", overwrite=False)


def test_a_pipe_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe.txt", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    check_output(pipe, overwrite=False)
    write_output(pipe, "through the pipe", overwrite=False)
    reader.join(timeout=10)
    assert read == ["through the pipe"]
    assert pipe.is_fifo()


def test_devices_are_written_to_as_they_are(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; from hammingmark.cli.outputs import write_output\n"
        "print('before', flush=True)\n"
        "for name in ('null', 'stdout', 'fd/1', 'stderr'):\n"
        "    write_output(Path('/dev') / name, name + '\\n', overwrite=False)\n"
        "print('after')\n"
    )
    call = [sys.executable, "-c", script]
    piped = subprocess.run(call, capture_output=True, text=True, check=True)
    assert (piped.stdout, piped.stderr) == ("before\nstdout\nfd/1\nafter\n", "stderr\n")
    with (tmp_path / "shell.txt").open("w") as file:  # like > in a shell
        subprocess.run(call, stdout=file, stderr=subprocess.DEVNULL, check=True)
    assert (tmp_path / "shell.txt").read_text() == piped.stdout
