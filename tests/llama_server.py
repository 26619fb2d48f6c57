"""llama.cpp's own HTTP server in a process of its own, for tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hammingmark.assembly.environment import model_store

_SERVE = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port = int(sys.argv[3])
params.n_parallel = 4
params.n_ctx = 4 * int(sys.argv[2])
params.cpuparams.n_threads = 1  # several would wait for each other where cores are shared
params.cpuparams_batch.n_threads = 1
params.warmup = False
params.verbosity = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Server:
    """A server and its process, which can be killed."""

    process: subprocess.Popen[str]
    url: str


def model_file() -> Path:
    """The embedded model."""
    (file,) = model_store().ensure("smollm2").glob("*.gguf")
    return file


@contextmanager
def serving(*, context: int = 2048, port: int = 0) -> Iterator[Server]:
    """Run a server with the embedded model, by default on any port that is free."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(model_file()), str(context), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield Server(process, process.stdout.readline().strip() + "/v1")
        finally:
            process.kill()
