"""``hammingmark serve`` in a process of its own, for tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import new_key
from hammingmark.keys.key import Secret
from hammingmark.keys.keyring import Keyring

_MAIN = "from hammingmark.cli import main; main()"


@dataclass(frozen=True)
class Served:
    """A service and its process."""

    process: subprocess.Popen[bytes]
    root: str
    log: Path

    @property
    def url(self) -> str:
        """Where OpenAI's interface is."""
        return f"{self.root}/v1"

    def stop(self, *, sign: int = signal.SIGTERM) -> int:
        """End it by a signal; its exit status."""
        self.process.send_signal(sign)
        return self.process.wait(60)


def keep_key(folder: Path, method: str | None = None) -> None:
    """Put the key in a folder by which a service will mark there: the same in every run."""
    key = replace(new_key(load_encoder(), method=method), secret=Secret(bytes(range(1, 33))))
    Keyring(folder / "keys").add(key, name="default")


@contextmanager
def serve(folder: Path, *options: str, **environ: str) -> Iterator[Served]:
    """Run a service whose keys are in a folder, until it is ready and as long as it is needed.

    Where no key was kept it makes one, under which a mark may show more or less than under others.
    """
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port = made.getsockname()[1]
    log = folder / "log"
    # A slow machine must not refuse what a test asks for.
    limits = {"HAMMINGMARK_SERVE_LIMITS_FIRST_SENTENCE_WAIT": "0"}
    env = {**os.environ, "HAMMINGMARK_KEYRING": str(folder / "keys"), **limits, **environ}
    command = [sys.executable, "-c", _MAIN, "serve", "--port", str(port), *options]
    with log.open("ab") as told, subprocess.Popen(command, env=env, stderr=told) as process:
        served = Served(process, f"http://127.0.0.1:{port}", log)
        try:
            _wait_until_ready(served)
            yield served
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _wait_until_ready(served: Served) -> None:
    while True:
        assert served.process.poll() is None, served.log.read_text()
        try:
            if httpx.get(f"{served.root}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
