"""The cost of the service over the bare model, and its speed with many clients.

    python benchmarks/server.py latency
    python benchmarks/server.py clients --clients 1 8 64
    python benchmarks/server.py crowd --clients 8 32 --one-key

``latency`` requests the same answers from llama.cpp's server and from the service in front of it,
one after the other and in turns: seconds until the first sentence, and until the end of the answer.
``clients`` runs several clients at once, each with its own API key. A single client sends, one
after the other, the questions of eight clients, so that both cases generate nearly the same: the
ratio of seconds per token is the cost of concurrency. Further figures: tokens per second, the first
sentence, the slowest client over the fastest, and the memory of the service. With ``--greedy`` one
more client first requests eight long answers: the others' waiting time shows whether one client can
starve them. ``crowd`` lets clients ask for long answers at once and says who has any text, and
since when, after a minute of the service's processor time, which other work on the machine does not
change. Without ``--upstream`` the default model runs in the service's own process tree.

Everything runs on this machine, in separate processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from hammingmark.assembly.environment import model_store
from hammingmark.models.catalogue import CATALOGUE, DEFAULT_GENERATOR
from hammingmark.models.entries import GeneratorCard
from hammingmark.server.authorization import add_to_file, new_api_key

_ALONE = 8  # questions of a single client

Spent = Callable[[], float]
"""The processor time that a service has taken, in seconds."""

QUESTIONS = (
    "Why does it rain?",
    "What is a lighthouse for?",
    "Tell me about the history of bread.",
    "How do birds find their way?",
    "What makes a good neighbour?",
    "Why is the sea salty?",
    "How does a clock work?",
    "What is snow made of?",
)

LLAMA = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_parallel = int(sys.argv[2])
params.n_ctx = 1024 * params.n_parallel
params.port = int(sys.argv[3])
params.verbosity = 0
server = xllamacpp.Server(params)
print("ready", flush=True)
sys.stdin.read()
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def llama_server(parallel: int) -> Iterator[str]:
    card = CATALOGUE[DEFAULT_GENERATOR].card
    assert isinstance(card, GeneratorCard)
    file = model_store().ensure(DEFAULT_GENERATOR) / card.file
    port = free_port()
    command = [sys.executable, "-c", LLAMA, str(file), str(parallel), str(port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        url = f"http://127.0.0.1:{port}/v1"
        wait_for(f"{url}/models")
        try:
            yield url
        finally:
            process.kill()


@contextmanager
def service(*options: str) -> Iterator[tuple[str, int]]:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "HAMMINGMARK_KEYRING": folder}
        serve = "from hammingmark.cli import main; main()"
        # Answers too short for a mark count as well.
        settings = ("--set", "policy.on_failure=deliver", *options)
        command = [sys.executable, "-c", serve, "serve", "--port", str(port), *settings]
        log = Path(folder) / "log"
        with (
            log.open("wb") as stderr,
            subprocess.Popen(command, env=environ, stderr=stderr) as process,
        ):
            try:
                wait_for(f"http://127.0.0.1:{port}/readyz")
                yield f"http://127.0.0.1:{port}/v1", process.pid
            finally:
                process.terminate()
                process.wait()


def wait_for(url: str) -> None:
    for _ in range(600):
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise TimeoutError(url)


async def ask(
    client: httpx.AsyncClient, url: str, number: int, tokens: int, *, token: str = "", n: int = 1
) -> dict[str, float]:
    """Stream one answer: seconds to its first sentence and to its end, and its tokens."""
    body = {
        "n": n,
        "messages": [{"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}],
        "max_tokens": tokens,
        "seed": number,
        "temperature": 0.8,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    start = time.perf_counter()
    text, first, used, drawn = "", 0.0, 0, 0
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    endpoint = f"{url}/chat/completions"
    async with client.stream("POST", endpoint, json=body, headers=headers) as response:
        if response.status_code != 200:
            raise RuntimeError(f"{response.status_code}: {(await response.aread())[:200]!r}")
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                raise RuntimeError(str(chunk["error"]))
            for choice in chunk.get("choices", ()):
                text += choice["delta"].get("content") or ""
            if not first and any(mark in text for mark in (". ", "! ", "? ", ".\n")):
                first = time.perf_counter() - start
            first = first or (
                time.perf_counter() - start if text.rstrip().endswith((".", "!", "?")) else 0.0
            )
            used = (chunk.get("usage") or {}).get("completion_tokens") or used
            drawn += (chunk.get("watermark") or {}).get("drawn_tokens", 0)
    whole = time.perf_counter() - start
    return {"first": first or whole, "whole": whole, "tokens": used, "drawn": drawn}


async def latency(options: argparse.Namespace) -> None:
    with llama_server(options.parallel) as bare, service("--upstream", bare) as (marked, _):
        timings: dict[str, list[dict[str, float]]] = {"bare": [], "marked": []}
        async with httpx.AsyncClient(timeout=600) as client:
            for url in (bare, marked):
                await ask(client, url, 0, 8)
            for number in range(options.requests):
                for name, url in (("bare", bare), ("marked", marked)):
                    timings[name].append(await ask(client, url, number, options.tokens))
        for moment in ("first", "whole"):
            medians = {
                name: statistics.median(row[moment] for row in rows)
                for name, rows in timings.items()
            }
            per_token = {
                name: sum(row["whole"] for row in rows) / max(1, sum(row["tokens"] for row in rows))
                for name, rows in timings.items()
            }
            report: dict[str, Any] = {"seconds": moment, "requests": options.requests}
            report |= {name: round(value, 3) for name, value in medians.items()}
            report["marked over bare"] = round(medians["marked"] / medians["bare"], 2)
            if moment == "whole":
                ratio = per_token["marked"] / per_token["bare"]
                report["marked over bare, per emitted token"] = round(ratio, 2)
                drawn, emitted = (
                    sum(row[name] for row in timings["marked"]) for name in ("drawn", "tokens")
                )
                report["drawn over emitted"] = round(drawn / max(1, emitted), 2)
            print(json.dumps(report), flush=True)


async def first_text(
    client: httpx.AsyncClient, url: str, number: int, tokens: int, *, token: str, spent: Spent
) -> dict[str, float]:
    """Stream one answer until it ends or is cancelled; a refused request is sent again in time.

    Returns:
        When its first text came and when it ended, in the service's processor time; the characters
        received, and how often it was refused.
    """
    body = {
        "messages": [{"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}],
        "max_tokens": tokens,
        "seed": number,
        "temperature": 0.8,
        "stream": True,
    }
    headers = {"Authorization": f"Bearer {token}"}
    endpoint = f"{url}/chat/completions"
    row = {"first": 0.0, "ended": 0.0, "characters": 0.0, "refused": 0.0}
    with suppress(asyncio.CancelledError):
        while not row["ended"]:
            async with client.stream("POST", endpoint, json=body, headers=headers) as response:
                if response.status_code == 429:
                    row["refused"] += 1
                    await asyncio.sleep(float(response.headers["Retry-After"]))
                    continue
                if response.status_code != 200:
                    raise RuntimeError(f"{response.status_code}: {(await response.aread())!r}")
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        for choice in json.loads(line[6:]).get("choices", ()):
                            text = choice["delta"].get("content") or ""
                            row["first"] = row["first"] or (spent() if text else 0.0)
                            row["characters"] += len(text)
                row["ended"] = spent()
    return row


async def crowd(options: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp())
    tokens_of = api_keys(folder / "api-keys.jsonl", max(options.clients) + 1)
    arguments = ["--set", "log.level=warning", "--api-keys", str(folder / "api-keys.jsonl")]
    arguments += [part for setting in options.set for part in ("--set", setting)]
    for count in options.clients:
        with service(*arguments) as (url, process):
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(timeout=None, limits=limits) as client:
                await ask(client, url, 0, 8, token=tokens_of[0])
                start = processor_seconds(process)

                def spent(process: int = process, start: float = start) -> float:
                    return processor_seconds(process) - start

                tasks = []
                for number in range(count):
                    token = tokens_of[0 if options.one_key else number]
                    asking = first_text(
                        client, url, number, options.tokens, token=token, spent=spent
                    )
                    tasks.append(asyncio.create_task(asking))
                while spent() < options.seconds and not all(task.done() for task in tasks):
                    await asyncio.sleep(0.2)
                for task in tasks:
                    task.cancel()
                rows = await asyncio.gather(*tasks)
        firsts = sorted(row["first"] for row in rows if row["first"])
        characters = [int(row["characters"]) for row in rows]
        report = {
            "clients": count,
            "API keys": 1 if options.one_key else count,
            "with text": len(firsts),
            "first text, median": round(statistics.median(firsts), 1) if firsts else None,
            "first text, slowest": round(firsts[-1], 1) if firsts else None,
            "refused at first": sum(1 for row in rows if row["refused"]),
            "ended": sum(1 for row in rows if row["ended"]),
            "characters": sum(characters),
            "of a client, fewest and most": [min(characters), max(characters)],
        }
        print(json.dumps(report), flush=True)


async def clients(options: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp())
    tokens_of = api_keys(folder / "api-keys.jsonl", max(options.clients) + 1)

    @contextmanager
    def served() -> Iterator[tuple[str, int]]:
        arguments = ["--set", f"parallel={options.parallel}", "--set", "log.level=warning"]
        arguments += ["--set", "limits.first_sentence_wait=0"]  # none is refused, however slow
        arguments += ["--api-keys", str(folder / "api-keys.jsonl")]
        if options.upstream:
            with (
                llama_server(options.parallel) as bare,
                service("--upstream", bare, *arguments) as it,
            ):
                yield it
        else:
            with service(*arguments) as it:
                yield it

    alone: dict[str, float] = {}
    with served() as (url, process):
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=600, limits=limits) as client:
            await ask(client, url, 0, 8, token=tokens_of[0])
            greedy = None
            if options.greedy:
                long_answers = ask(client, url, 0, 2000, token=tokens_of[-1], n=8)
                greedy = asyncio.create_task(long_answers)
                await asyncio.sleep(2)
            for count in options.clients:
                start = time.perf_counter()

                async def one(number: int, alone: bool) -> list[dict[str, float]]:
                    questions = range(_ALONE) if alone else [number]
                    return [
                        await ask(client, url, question, options.tokens, token=tokens_of[number])
                        for question in questions
                    ]

                rows = await asyncio.gather(*(one(number, count == 1) for number in range(count)))
                duration = time.perf_counter() - start
                answers = [row for each in rows for row in each]
                tokens, drawn = (sum(row[name] for row in answers) for name in ("tokens", "drawn"))
                of_each = [sum(row["whole"] for row in each) for each in rows]
                alone = alone or {"emitted": duration / tokens, "drawn": duration / drawn}
                report = {
                    "clients": count,
                    "answers": len(answers),
                    "seconds": round(duration, 1),
                    "tokens per second": round(tokens / duration, 1),
                    "drawn per second": round(drawn / duration, 1),
                    "drawn over emitted": round(drawn / tokens, 2),
                    "seconds per emitted token over one client's": round(
                        duration / tokens / alone["emitted"], 3
                    ),
                    "per drawn token": round(duration / drawn / alone["drawn"], 3),
                    "first sentence, median": round(
                        statistics.median(row["first"] for row in answers), 2
                    ),
                    "first sentence, slowest": round(max(row["first"] for row in answers), 2),
                    "slowest client over fastest": round(max(of_each) / min(of_each), 2),
                    "memory, MiB": memory(process),
                }
                print(json.dumps(report), flush=True)
            if greedy is not None:
                greedy.cancel()


def api_keys(file: Path, count: int) -> list[str]:
    """Write a file of ``count`` API keys and return their tokens."""
    keys = [new_api_key(f"client-{number}", scopes=("generate",)) for number in range(count)]
    for _, key in keys:
        add_to_file(file, key)
    return [token for token, _ in keys]


def memory(process: int) -> int:
    """Resident memory of a process and its children, in MiB."""
    pages = sum(int(fields[21]) for fields in states(process))
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def processor_seconds(process: int) -> float:
    """The processor time that a process and its children have taken."""
    ticks = sum(int(fields[11]) + int(fields[12]) for fields in states(process))
    return ticks / os.sysconf("SC_CLK_TCK")


def states(process: int) -> Iterator[list[str]]:
    """The fields of /proc/PID/stat after the name, for a process and its children."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(folder.name) == process or int(fields[1]) == process:
            yield fields


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("latency")
    first.add_argument("--requests", type=int, default=12)
    second = commands.add_parser("clients")
    second.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    second.add_argument(
        "--greedy", action="store_true", help="one more client requests long answers"
    )
    second.add_argument("--upstream", action="store_true", help="generate with llama.cpp's server")
    third = commands.add_parser("crowd")
    third.add_argument("--clients", type=int, nargs="+", default=[8, 32])
    third.add_argument("--one-key", action="store_true", help="all clients share one API key")
    third.add_argument("--seconds", type=float, default=60.0, help="of the service's processors")
    third.add_argument("--set", action="append", default=[], help="a setting of the service")
    for command, run, tokens in (
        (first, latency, 80), (second, clients, 80), (third, crowd, 512),
    ):  # fmt: skip
        command.add_argument("--tokens", type=int, default=tokens)
        command.add_argument("--parallel", type=int, default=8)
        command.set_defaults(run=run)
    options = parser.parse_args()
    asyncio.run(options.run(options))


if __name__ == "__main__":
    main()
