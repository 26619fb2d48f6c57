"""The command as a process, with closed, full or broken streams."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="shells and signals are others here")

PROGRAM = f"'{sys.executable}' -c 'from hammingmark.cli import main; main()'"


def shell(command: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell command line in which HM stands for the command."""
    ring, cache = str(tmp_path / "ring"), str(tmp_path / "cache")
    done = subprocess.run(
        ["bash", "-c", command.replace("HM", PROGRAM)],
        env={**os.environ, "HAMMINGMARK_KEYRING": ring, "HAMMINGMARK_CACHE": cache},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize("arguments", ["models list", "models list --json", "--help", "keys list"])
def test_a_full_disk_is_one_sentence(tmp_path: Path, arguments: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    done = shell(f"HM {arguments} > /dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", ["models list", "--help", "keys list"])
def test_a_closed_output_is_one_sentence(tmp_path: Path, arguments: str) -> None:
    done = shell(f"HM {arguments} >&-", tmp_path)
    assert done.returncode == 1
    assert "Bad file descriptor" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", ["generate --no-watermark", "threshold -", "calibrate - -k a"]
)
def test_a_closed_input_is_one_sentence(tmp_path: Path, arguments: str) -> None:
    done = shell(f"HM {arguments} {'--out o' if 'calibrate' in arguments else ''} <&-", tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    if "calibrate" not in arguments:  # which looks for its key first
        assert "Cannot read standard input: Bad file descriptor" in done.stderr


def test_a_closed_standard_error_loses_words_and_nothing_else(tmp_path: Path) -> None:
    done = shell("HM keys show absent 2>&-", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    done = shell("HM models list --json 2>&-", tmp_path)
    assert done.returncode == 0
    assert "smollm2" in done.stdout


def test_files_that_are_opened_do_not_take_the_place_of_closed_streams(tmp_path: Path) -> None:
    script = (
        "import os; from hammingmark.cli import _open_closed_streams; _open_closed_streams(); "
        "file = open('x', 'w'); assert file.fileno() > 2, file.fileno(); file.write('kept')"
    )
    done = shell(f"'{sys.executable}' -c \"{script}\" <&- >&-", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x").read_text() == "kept"


@pytest.mark.parametrize("arguments", ["models list --json", "models list", "--help", "keys list"])
def test_a_reader_that_has_gone_ends_the_program_as_the_signal_would(arguments: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-c", "from hammingmark.cli import main; main()"]
    done = subprocess.run(
        [*program, *arguments.split()], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
