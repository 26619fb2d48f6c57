"""What a function does in a forked process, for tests."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest


def in_a_fork(work: Callable[[], str]) -> str:
    """What a function returns, or complains of, in a forked process."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = work()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    until = time.monotonic() + 300.0
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            pytest.fail("the forked process hangs")
        time.sleep(0.05)
    with os.fdopen(read) as said_there:
        return said_there.read()
