"""Threads on shared cores: one for each core, or one fewer; spinning or sleeping while they wait.

Threads that compute one step together wait for the slowest. Each figure is the time of a fixed
piece of work, relative to one thread on an idle machine in the same run. ``busy`` is with one
computing process for each core. Run it on an idle machine::

    python benchmarks/threads.py
    python benchmarks/threads.py --only encoder
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter

from hammingmark.assembly.environment import model_store
from hammingmark.backends.llamacpp import LlamaCppBackend
from hammingmark.backends.local import available_cores
from hammingmark.encoders.onnx import OnnxEncoder
from hammingmark.models.catalogue import DEFAULT_GENERATOR
from hammingmark.records import Prompt, Request

TEXT = Prompt("The lighthouse had been dark for a year. Nobody in the village knew why.")
SENTENCES = [f"Sentence number {i} says that the boats went out again." for i in range(128)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=["generator", "encoder"])
    parser.add_argument("--tokens", type=int, default=60, help="tokens to draw")
    options = parser.parse_args()
    cores = available_cores()
    print(f"{cores} cores")
    if options.only != "encoder":
        table(
            "llama.cpp",
            {
                f"{threads} threads, {policy}": partial(draw, threads, policy, options.tokens)
                for threads in sorted({1, max(1, cores - 1), cores})
                for policy in ("passive", "active")
            },
        )
    if options.only != "generator":
        table(
            "encoder",
            {
                f"{threads} threads": partial(embed, threads)
                for threads in sorted({1, max(1, cores - 1), cores})
            },
        )


def table(title: str, variants: dict[str, Callable[[], float]]) -> None:
    """Print the times of each variant, idle and busy, relative to the first variant when idle."""
    print(title)
    base = 0.0
    for name, run in variants.items():
        idle = run()
        base = base or idle
        with burning():
            busy = run()
        print(f"  {name:<22} idle {idle / base:6.2f}   busy {busy / base:6.2f}   ({idle:.2f} s)")


def draw(threads: int, policy: str, tokens: int) -> float:
    """Seconds for one candidate, once the model is loaded."""
    os.environ["OMP_WAIT_POLICY"] = policy
    (file,) = model_store().ensure(DEFAULT_GENERATOR).glob("*.gguf")
    with LlamaCppBackend(file, name=DEFAULT_GENERATOR, threads=threads, context=1024) as backend:
        session = backend.open()
        seconds = []
        for number in range(2):  # the first one warms up
            began = perf_counter()
            session.submit(Request(number, TEXT, "", number, tokens, lambda text: False))
            session.wait()
            seconds.append(perf_counter() - began)
        session.close()
    return seconds[-1]


def embed(threads: int) -> float:
    """Seconds for a list of sentences, once the model is loaded."""
    encoder = OnnxEncoder(model_store().ensure("minilm"), name="minilm", threads=threads)
    encoder.encode(SENTENCES[:8])
    began = perf_counter()
    for _ in range(2):
        encoder.encode(SENTENCES)
    return perf_counter() - began


@contextmanager
def burning() -> Iterator[None]:
    """Run a computing process on every core."""
    command = [sys.executable, "-c", "while True: pass"]
    burners = [subprocess.Popen(command) for _ in range(available_cores())]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


if __name__ == "__main__":
    main()
