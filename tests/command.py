"""The command ``hammingmark`` run in this process, for tests that need no process of its own.

Starting Python and importing everything takes longer than most commands do. Here the real ``main``
runs with standard streams, arguments, environment and working folder of its own, and what it loads
stays loaded. What only a process can show (signals, pipes, the terminal's encoding, the installed
script itself) is tested on a real one.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from hammingmark import cli

INSTALLED = Path(sys.executable).with_name("hammingmark")


def run_here(
    *arguments: str,
    given: bytes = b"",
    folder: Path,
    variables: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
) -> CompletedProcess[bytes]:
    """Run the command and wait, as ``subprocess.run`` would.

    Args:
        arguments: what stands behind ``hammingmark``.
        given: standard input.
        folder: to work in.
        variables: of the environment, beside those there are.
        encoding: of standard output.
    """
    out, err = _stream(encoding=encoding), _stream()
    with (
        mock.patch.object(sys, "stdin", _stream(given)),
        mock.patch.dict(os.environ, variables or {}),
        _within(folder),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = run_main(*arguments)
    return CompletedProcess([*arguments], code, _written(out), _written(err))


def run_main(*arguments: str) -> int:
    """Run ``main`` with these arguments and the streams there are; its exit code."""
    with mock.patch.object(sys, "argv", ["hammingmark", *arguments]):
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
            assert isinstance(code, int), code
            return code
    return 0


def _stream(content: bytes = b"", *, encoding: str = "utf-8") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding=encoding)


def _written(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()


@contextmanager
def _within(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
